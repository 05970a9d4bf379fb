"""What a coordinator knows of each worker, and how patient it is with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from umiak.messages.control import ServiceAddress
from umiak.wire.server import Peer

WAIT_SECONDS = 600.0


@dataclass(frozen=True)
class Rules:
    """How patient a coordinator is: `wait_seconds` for workers to come, and for a round."""

    max_restarts: int
    wait_seconds: float = WAIT_SECONDS
    stall_ends: bool = False
    """Whether a job without a round ends, for somebody else to start it again, instead of restarting by itself."""


@dataclass
class WorkerState:
    """What is known of one worker. `done` is how far it has got with what it does before its server can start."""

    peer: Peer | None = None
    ready: bool = False
    services: tuple[ServiceAddress, ...] = ()
    round: int = -1
    """The last round of this attempt that it has reported; -1 before its trainer is restored."""
    ended: int | None = None
    phase: str = ""
    done: int = 0

    def begin_again(self) -> None:
        self.ready, self.ended, self.round = False, None, -1


def listed(indices: Sequence[int]) -> str:
    """Some numbers in a line that stays short."""
    shown = ", ".join(map(str, indices[:10]))
    return f"{shown} and {len(indices) - 10} more" if len(indices) > 10 else shown
