"""The process that sends one run's metrics to one place: `python -m umiak.sinks.process OUT KIND PLACE`.

It follows OUT/metrics.jsonl, so the file is the queue: what cannot be sent now is sent later, and a run that is resumed
continues where it was (OUT/sinks.json). A line on standard output is for the user; there is one when sending first fails. A line
on standard input says how the training ended; without one, it ends with its input.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Protocol, TextIO

from umiak.files import write_json
from umiak.messages import events
from umiak.messages.events import Pass, Round
from umiak.rundir import layout
from umiak.sinks.target import Target

LOOK_SECONDS = 1.0
LONGEST_PAUSE = 30.0
AFTER_END_SECONDS = 60.0
"""Whoever started it waits for less; this is for one that was killed."""
MOST_BYTES = 1 << 20
"""Read at a time."""


class Sink(Protocol):
    run: str
    """The server's name for the run, to continue it by."""

    def write(self, told: list[Round | Pass]) -> None: ...

    def end(self, state: str, snapshot: str) -> None: ...


class Metrics:
    """What is new in metrics.jsonl. A restart writes it anew, without what is computed again: that was told already."""

    def __init__(self, path: Path, told: int) -> None:
        self._path, self._told = path, told
        self._inode, self._offset = 0, 0

    def new(self) -> tuple[list[Round | Pass], int]:
        """Events, and what to hand to `sent` once they are sent."""
        try:
            with self._path.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                if inode != self._inode or os.fstat(file.fileno()).st_size < self._offset:
                    self._inode, self._offset = inode, 0
                file.seek(self._offset)
                read = file.read(MOST_BYTES)
        except FileNotFoundError:
            return [], 0
        whole = read[: read.rfind(b"\n") + 1]
        found = [event for line in whole.splitlines() for event in _events(line)]
        return [event for event in found if self._rank(event) > self._told], len(whole)

    def sent(self, told: list[Round | Pass], length: int) -> int:
        self._offset += length
        self._told = max([self._told, *map(self._rank, told)])
        return self._told

    @staticmethod
    def _rank(event: Round | Pass) -> int:
        """In the order they were told: a pass ends after the round of the same number."""
        return 2 * event.round + isinstance(event, Pass)


def _events(line: bytes) -> list[Round | Pass]:
    return [event for event in events.decode_lines(line) if isinstance(event, Round | Pass)]


class End:
    """How the training ended, once standard input has."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.state, self.snapshot = "killed", ""
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        for line in sys.stdin:
            said = json.loads(line)
            self.state, self.snapshot = said["state"], said["snapshot"]
            break
        self.over.set()
        threading.Timer(AFTER_END_SECONDS, os._exit, (1,)).start()


def opened(target: Target, out: Path, about: dict[str, Any], run: str) -> Sink:
    if target.kind == "mlflow":
        from umiak.sinks.mlflow import MlflowSink

        return MlflowSink(target.place, out, about, run)
    from umiak.sinks.wandb import WandbSink

    return WandbSink(target.place, out, about, run)


class Sending:
    def __init__(self, target: Target, out: Path, end: End) -> None:
        self._target, self._out, self._end = target, out, end
        known = _json(out / layout.SINKS).get(str(target), {})
        self._run, told = known.get("run", ""), known.get("told", -1)
        self._metrics = Metrics(out / layout.METRICS, told)
        self._sink: Sink | None = None

    def step(self) -> bool:
        """Send what there is; whether that was the last of it."""
        over = self._end.over.is_set()
        told, length = self._metrics.new()
        if self._sink is None and (told or over):
            about = _json(self._out / layout.RUN)
            self._sink = opened(self._target, self._out, about, self._run)
            self._note(-1)
        if told and self._sink is not None:
            self._sink.write(told)
            self._note(self._metrics.sent(told, length))
        elif length:
            self._metrics.sent([], length)
        if over and not length and self._sink is not None:
            self._sink.end(self._end.state, self._end.snapshot)
            return True
        return False

    def _note(self, told: int) -> None:
        assert self._sink is not None
        path = self._out / layout.SINKS
        known = _json(path)
        before = known.get(str(self._target), {}).get("told", -1)
        write_json(path, {**known, str(self._target): {"run": self._sink.run, "told": max(told, before)}})


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def main() -> int:
    out, kind, place = sys.argv[1:]
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):  # libraries write there, too
        return _send(Target(kind, place), Path(out), sys.__stdout__)


def _send(target: Target, out: Path, for_user: TextIO | None) -> int:
    end = End()
    sending, pause, told = Sending(target, out, end), LOOK_SECONDS, False
    while True:
        try:
            if sending.step():
                return 0
            pause = LOOK_SECONDS
        except Exception as error:  # of any library that speaks with any server: training must not end for it
            over = end.over.is_set()
            if over or not told:
                later = "what is left was not sent" if over else "trying again while training continues"
                why = "" if told else f"cannot log there ({_short(error)}); "
                print(f"{target}: {why}{later}", file=for_user, flush=True)
            if over:
                return 1
            pause, told = min(2 * pause, LONGEST_PAUSE), True
        end.over.wait(pause)


def _short(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) < 200 else text[:200] + "…"


if __name__ == "__main__":
    sys.exit(main())
