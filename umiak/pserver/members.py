"""The trainers at one service: those of the job under way, and those of the next that have come early. Sends nothing."""

from __future__ import annotations

from enum import Enum, auto

from umiak.wire.frames import Frame
from umiak.wire.server import Peer


class Left(Enum):
    """What it means that a trainer has left."""

    NOTHING = auto()
    """It had nothing to do with the job under way, or others are still finishing it."""
    JOB_DONE = auto()
    """It was the last of a job that all had finished."""
    LOST = auto()
    """It is missing from the job under way."""


class Members:
    def __init__(self) -> None:
        self.present: dict[int, Peer] = {}
        """Trainers of the job under way, by number."""
        self._arriving: dict[int, Peer] = {}
        """Trainers of the next job: they came while some of the last one's had not left yet."""
        self._finished: set[int] = set()
        self._early: list[tuple[Peer, Frame]] = []
        """What trainers of the next job have sent."""

    @property
    def busy(self) -> bool:
        return bool(self.present or self._arriving)

    def at(self, trainer: int) -> Peer | None:
        """Who has the place that a trainer of this number would take now."""
        return self._gathering().get(trainer)

    def join(self, trainer: int, peer: Peer) -> None:
        self._gathering()[trainer] = peer

    def _gathering(self) -> dict[int, Peer]:
        return self._arriving if self._finished else self.present

    def is_early(self, peer: Peer) -> bool:
        return self._arriving.get(trainer_of(peer)) is peer

    def keep(self, peer: Peer, frame: Frame) -> None:
        """Keep a frame of one who came early until its job begins."""
        self._early.append((peer, kept(frame)))

    def finish(self, trainer: int) -> None:
        """A trainer says that its part of the job is done; it leaves next."""
        self._finished.add(trainer)

    def leave(self, peer: Peer) -> Left:
        trainer = trainer_of(peer)
        if self.is_early(peer):
            del self._arriving[trainer]
            self._early = [(other, frame) for other, frame in self._early if other is not peer]
        if self.present.get(trainer) is not peer:
            return Left.NOTHING
        del self.present[trainer]
        if trainer not in self._finished:
            return Left.LOST
        return Left.NOTHING if self.present else Left.JOB_DONE

    def next_job(self) -> list[tuple[Peer, Frame]]:
        """Forget those of the job that was; those who wait for the next begin it, with what they have sent."""
        self.present, self._arriving = self._arriving, {}
        self._finished = set()
        early, self._early = self._early, []
        return early


def kept(frame: Frame) -> Frame:
    """A copy that outlives the connection's buffer."""
    return frame._replace(head=memoryview(bytes(frame.head)), body=frame.body.copy())


def trainer_of(peer: Peer) -> int:
    assert peer.member is not None
    return peer.member.index
