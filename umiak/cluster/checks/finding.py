"""What a check says, and what it may ask. Nothing here asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from umiak.cluster.aws import Aws
from umiak.cluster.stacks import Stack
from umiak.spec.cluster import ClusterSpec

# error: creation would fail or be refused; warning: it would work, but not as most want; info: good to know.
Level = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    level: Level
    check: str
    text: str
    # What to do; an info needs nothing done.
    fix: str = ""


@dataclass(frozen=True)
class Caller:
    """Whose credentials these are. `principal` is the IAM role or user behind them, None where IAM knows none."""

    account: str
    arn: str
    principal: str | None
    # False when IAM could not be asked, so that a role's path is not known.
    certain: bool = True


@dataclass(frozen=True)
class Context:
    spec: ClusterSpec
    aws: Aws
    caller: Caller
    # Of the cluster's name, whoever made it.
    stack: Stack | None
    today: date

    @property
    def exists(self) -> bool:
        """Whether the cluster itself does."""
        return self.stack is not None and self.stack.ours
