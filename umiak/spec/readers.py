"""Readers of configs that are not written for Umiak. An entry point registers them; load.py asks them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from umiak.spec.load import Loaded
    from umiak.spec.settings import Settings


class Reader(Protocol):
    def reads(self, path: Path) -> bool:
        """Whether a config is in this reader's language, told by its text before anything of it runs."""

    def load(self, path: Path, arguments: Mapping[str, str], settings: Settings) -> Loaded:
        """Run the config. What `settings.job` does not need may be left unread."""


_readers: list[Reader] = []


def register(reader: Reader) -> None:
    if reader not in _readers:
        _readers.append(reader)


def reader_of(path: Path) -> Reader | None:
    """The reader of a config; None of one that is written for Umiak."""
    return next((reader for reader in _readers if reader.reads(path)), None)
