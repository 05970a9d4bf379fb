"""`umiak train … --page`: a page about one run, in a process of its own. Whatever happens to it, training continues."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from umiak.errors import UmiakError

Say = Callable[[str], None]
END_SECONDS = 5.0
READY = "page: "
"""How its first line begins if all is well; any other line says why there is no page."""
WORDS = [sys.executable, "-m", "umiak.page"]


class Beside:
    """It ends when we close its standard input, and so also when we are killed."""

    def __init__(self, out: Path) -> None:
        self.address = ""
        self._listener: threading.Thread | None = None
        # A session of its own: Ctrl-C is for the training, whose last seconds people want to see.
        self._process = subprocess.Popen(
            [*WORDS, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip

    def announce(self, say: Say) -> None:
        """Say where it is, or why it is not, as soon as that is known. Waits for nothing."""
        self._listener = threading.Thread(target=self._listen, args=(say,), name="page", daemon=True)
        self._listener.start()

    def _listen(self, say: Say) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line.startswith(READY):
            self.address = line.removeprefix(READY)
            say(line)
        else:
            say(f"no page: {line or 'its process ended at once'}; training continues")

    def wait(self) -> None:
        """Until it ends by itself, or Ctrl-C."""
        if self._listener is None:
            return
        with contextlib.suppress(KeyboardInterrupt):
            self._listener.join()
            if self.address:
                print(
                    f"Training has ended. The page stays at {self.address.partition('?')[0]} until Ctrl-C.", flush=True
                )
                self._process.wait()

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def shown(out: Path, keep: bool = False) -> Iterator[Callable[[Say], None]]:
    """A page about the run in `out` while the block runs; with `keep`, also afterwards, until Ctrl-C.

    Gives a function that takes another one, to be called with a line for the user.
    """
    try:
        page = Beside(out)
    except OSError as error:
        problem = error.strerror
        yield lambda say: say(f"no page: cannot start its process ({problem}); training continues")
        return
    try:
        yield page.announce
    except UmiakError as error:
        if keep:
            print(f"umiak: {error}", file=sys.stderr, flush=True)
        raise
    finally:
        if keep and not isinstance(sys.exc_info()[1], KeyboardInterrupt):
            page.wait()
        page.end()
