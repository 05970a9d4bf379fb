"""Whose a thing is: of the stack that a cluster is or was, or of an earlier cluster with the same name.

A name does not tell: it is used again, and in other regions. The id of a stack does. CloudFormation remembers it and what the
stack made for 90 days after its end, so a destroy that was interrupted after that end is resumed on any machine, without a
file of our own that could be lost. What holds data also carries the id as a tag, for the time after those 90 days.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from umiak.cluster import stacks
from umiak.cluster.aws import Aws
from umiak.spec.cluster import STACK_TAG, ClusterSpec


@dataclass(frozen=True)
class Owner:
    # Its id; None for a cluster that never was.
    stack: str | None = None
    created: datetime | None = None
    # What CloudFormation calls the things it made.
    made: frozenset[str] = field(default_factory=frozenset)
    # The user said that what earlier clusters of this name kept is meant, too.
    earlier_too: bool = False

    def owns(self, name: str, tags: Mapping[str, str]) -> bool:
        mine = self.stack is not None and tags.get(STACK_TAG) == self.stack
        return self.earlier_too or mine or name in self.made

    def was_there(self, moment: datetime) -> bool:
        """Whether something that came into being then can be its own."""
        return self.created is None or _naive(moment) >= _naive(self.created)


def _naive(moment: datetime) -> datetime:
    """AWS tells all times in UTC."""
    return moment.replace(tzinfo=None, microsecond=0)


def find(aws: Aws, spec: ClusterSpec, *, earlier_too: bool = False) -> Owner:
    """The stack there is, or the last there was."""
    known: stacks.Stack | stacks.Deleted | None = stacks.find(aws, spec.name) or stacks.last_deleted(aws, spec.name)
    if known is None:
        return Owner(earlier_too=earlier_too)
    made = (entry.get("PhysicalResourceId") for entry in stacks.resources(aws, known.id).values())
    return Owner(known.id, known.created, frozenset(name for name in made if name), earlier_too)
