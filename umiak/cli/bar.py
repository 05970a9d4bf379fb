"""How far a long copy is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 5.0


@contextmanager
def bar(title: str, unit: str = "bytes") -> Iterator[Callable[[int, int], None]]:
    """Gives a function to call with the bytes (or rows) that are done, and all of them."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console()
    if not console.is_terminal:
        yield _Lines(title, unit)
        return
    amount = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(), TextColumn(unit))
    columns = (TextColumn(title), BarColumn(), *amount, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


class _Lines:
    def __init__(self, title: str, unit: str) -> None:
        self._title, self._unit, self._spoke = title, unit, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._spoke >= LINE_SECONDS:
            self._spoke = time.monotonic()
            print(f"{self._title}: {100 * done // max(total, 1)} % of {total:,} {self._unit}", flush=True)
