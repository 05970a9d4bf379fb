"""What `umiak.train` asks of the process that trains for it (umiak/launch/__main__.py). Both are of the same installation."""

from __future__ import annotations

from dataclasses import dataclass

from umiak.spec.settings import Settings


@dataclass(frozen=True)
class Request:
    settings: Settings
    config: bytes | None
    """The pickled config; None where the settings name a file."""
    path: list[str]
    """Where the caller finds its modules."""
