"""The training's side: starts a process for each target, and tells it when training has ended. It waits for none before that."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from umiak.errors import UmiakError
from umiak.messages.events import Done, Event, Notice, Snapshot
from umiak.sinks.target import Target

CLOSE_SECONDS = 10.0


class Feed:
    """Each process reads OUT/metrics.jsonl by itself, so nothing is lost while its server cannot be reached."""

    def __init__(self, targets: Sequence[Target], out: Path, say: Callable[[str], None]) -> None:
        self._say = say
        self._processes = {target: self._start(target, out) for target in targets}

    def _start(self, target: Target, out: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "umiak.sinks.process", str(out), *target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C ends training; this ends after it
        )
        threading.Thread(target=self._listen, args=(process,), name="sink", daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._say(line.rstrip("\n"))

    def close(self, state: str, snapshot: str = "") -> None:
        """Training is over (`state`: done, stopped or failed). What is not sent in a few seconds is not sent."""
        for process in self._processes.values():
            assert process.stdin is not None
            with contextlib.suppress(OSError, ValueError):
                process.stdin.write(json.dumps({"state": state, "snapshot": snapshot}) + "\n")
                process.stdin.close()
        deadline = time.monotonic() + CLOSE_SECONDS
        for target, process in self._processes.items():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._say(f"{target}: its server does not answer; the last metrics were not sent")


@contextlib.contextmanager
def logging_to(
    targets: Sequence[Target], out: Path, on_event: Callable[[Event], None]
) -> Iterator[Callable[[Event], None]]:
    """Around a training run: gives what is to be called with each of its events."""
    feed = Feed(targets, out, lambda text: on_event(Notice(text)))
    state, snapshot = "failed", ""

    def watch(event: Event) -> None:
        nonlocal state, snapshot
        if isinstance(event, Snapshot):
            snapshot = event.path
        if isinstance(event, Done):
            state = "done"
        on_event(event)

    try:
        yield watch
    except UmiakError as error:
        state = "stopped" if error.exit_code == 75 else "failed"
        raise
    finally:
        feed.close(state, snapshot)
