"""`kill -9` at every call that changes something in AWS, whichever calls a command makes: nobody keeps a list of them.

A call that only asks changes nothing, so a process that dies there leaves what one leaves that dies after the change before it;
but AWS works on while it waits. So a command is killed after the first call of each operation that changes something, and
before it where it has waited since. There this process forks. The child has the fake AWS of that moment and does what a user
does: it types the command again. The parent continues, as if nothing had happened, to the next such call.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster_life import Life
from umiak.cluster.aws import Aws

# Simulated seconds in which AWS may have come to another state by itself.
WAITED = 60.0
ASKS = ("Describe", "Get", "List", "Head", "Simulate", "Validate", "Lookup")


def changes(operation: str) -> bool:
    return not operation.startswith(ASKS)


class Killer:
    def __init__(self, life: Life, again: Callable[[], None], part: tuple[int, int], only: Set[str]) -> None:
        self.life, self.again, self.part, self.only = life, again, part, only
        self.seen: list[str] = []
        self.failures: list[str] = []
        self.deaths = 0
        # Whether the last call was the first of its operation, and when the last child was made: after how many changes, when.
        self._after = ""
        self._changes, self._last = 0, (-1, 0.0)

    def before(self, service: str, operation: str) -> None:
        """A call is about to be made."""
        name = f"{service}:{operation}"
        new = changes(operation) and name not in self.seen and (not self.only or name in self.only)
        if self._after:
            self._die(f"after {self._after}")
        if new:
            if not self.seen or self.life.aws.clock.seconds > self._last[1] + WAITED:
                self._die(f"before {name}")
            self.seen.append(name)
        self._after = name if new else ""
        self._changes += changes(operation)

    def _die(self, moment: str) -> None:
        state = (self._changes, self.life.aws.clock.seconds)
        if state == self._last:
            return
        self._last = state
        self.deaths += 1
        if self.deaths % self.part[1] != self.part[0]:
            return
        with kept(self.life.directory):
            report = Path(tempfile.mkstemp(prefix="umiak-kill-")[1])
            self.life.aws.asleep = True
            child = os.fork()
            if child == 0:
                self._live_on(report)
            _, status = os.waitpid(child, 0)
            self.life.aws.asleep = False
            if status:
                self.failures.append(f"killed {moment}:\n{report.read_text()}")
            report.unlink()

    def _live_on(self, report: Path) -> None:
        """In the child, which never returns."""
        code = 1
        try:
            self.life.patch.setattr(Aws, "_prepare", PREPARE)
            self.life.aws.after_fork()
            for name, value in self.life.aws.environment().items():
                os.environ[name] = value
            self.again()
            assert not self.life.aws.unmodelled
            code = 0
        except BaseException:
            report.write_text(f"{traceback.format_exc()}\n{self.life.output}")
        finally:
            os._exit(code)


PREPARE = Aws._prepare


def at_every_change(
    life: Life,
    command: Callable[[], int],
    again: Callable[[], None],
    part: tuple[int, int] = (0, 1),
    only: Set[str] = frozenset(),
) -> set[str]:
    """Run a command to its end, and `again` wherever it is killed; the operations by which it changes something.

    `part` (k, n): only at every n-th of these moments, so that n tests, from k = 0 on, share them. `only`: these operations.
    """
    killer = Killer(life, again, part, only)

    def counted(self: Aws, service: str, operation: str, region: str | None) -> Any:
        killer.before(service, operation)
        return PREPARE(self, service, operation, region)

    with life.patch.context() as patch:
        patch.setattr(Aws, "_prepare", counted)
        assert command() == 0, life.output
    assert not killer.failures, "\n\n".join(killer.failures)
    return set(killer.seen)


@contextmanager
def kept(directory: Path) -> Iterator[None]:
    """What a child writes there does not stay."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(directory, copy, dirs_exist_ok=True)
        try:
            yield
        finally:
            for path in directory.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(copy, directory, dirs_exist_ok=True)
