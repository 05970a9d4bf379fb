"""train.log and server.log: lines in the format of glog, and the sentences that scripts of 2016 look for in them.

Only the text is here; when to write is for the trainer and the server.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TextIO

from umiak.errors import StorageError
from umiak.files import patiently

PYTHON = "umiak.paddle_v1.python"
"""The logger for what v1 said from Python: its lines had a format of their own."""

QUEUED_LINES = 10_000
FLUSH_SECONDS = 2.0
_LETTERS = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}


class GlogFormatter(logging.Formatter):
    """`I1116 09:10:17.123121    50 loop.py:155] message`: level, date, time, thread, where, what.

    What v1 said from Python is `[INFO 2016-11-16 09:10:17,123 networks.py:12] message`.
    """

    def format(self, record: logging.LogRecord) -> str:
        if record.name == PYTHON:
            where = f"{record.filename}:{record.lineno}"
            return f"[{record.levelname} {self.formatTime(record)} {where}] {record.getMessage()}"
        when = datetime.fromtimestamp(record.created).strftime("%m%d %H:%M:%S.%f")
        letter = _LETTERS.get(record.levelno, "I")
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return f"{letter}{when} {threading.get_native_id():5d} {record.filename}:{record.lineno}] {text}"


class _LogFile(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """A log that cannot be written does not end a training: the next checkpoint meets the same disk and says so."""


class _QueuedLogFile(_LogFile):
    """Lines wait for a thread that writes them: a volume that does not answer holds up that thread, and nobody who logs.

    The file is written past the stream's buffer, whose lock a fork might find taken.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: queue.SimpleQueue[bytes | threading.Event] = queue.SimpleQueue()
        self._lost = 0
        self._pid = os.getpid()
        threading.Thread(target=self._work, daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        line = (self.format(record) + "\n").encode(errors="replace")
        if os.getpid() != self._pid:
            # The thread has stayed with the parent of this fork.
            with contextlib.suppress(OSError):
                os.write(self.stream.fileno(), line)
        elif self._lines.qsize() < QUEUED_LINES:
            self._lines.put(line)
        else:
            self._lost += 1

    def drain(self, seconds: float) -> None:
        """Wait until what was logged so far is written, but no longer than this."""
        if os.getpid() == self._pid:
            reached = threading.Event()
            self._lines.put(reached)
            reached.wait(seconds)

    def _work(self) -> None:
        told = 0
        while True:
            line = self._lines.get()
            if isinstance(line, threading.Event):
                line.set()
                continue
            if (lost := self._lost) > told:
                line += f"({lost - told} lines were lost here: the volume did not take them)\n".encode()
            try:
                while line:
                    line = line[os.write(self.stream.fileno(), line) :]
                told = lost
            except (OSError, ValueError):
                self._lost += 1


def flush(seconds: float = FLUSH_SECONDS) -> None:
    """Have what was logged on disk before this process ends, unless that takes too long."""
    deadline = time.monotonic() + seconds
    for handler in logging.getLogger("umiak").handlers:
        if isinstance(handler, _QueuedLogFile):
            handler.drain(max(0.0, deadline - time.monotonic()))


def echo(stream: TextIO, mark: str = "") -> None:
    """Send everything this process logs to a stream too, each line after `mark`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Marked(mark))
    logging.getLogger("umiak").addHandler(handler)


class _Marked(GlogFormatter):
    def __init__(self, mark: str) -> None:
        super().__init__()
        self.mark = mark

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(f"{self.mark}{line}" for line in super().format(record).split("\n"))


def setup(path: Path, queued: bool = False) -> TextIO:
    """Send everything this process logs to `path`, whole lines appended at once. Dots go straight to the stream.

    A process that others listen for has its lines `queued`, and must `flush` before it ends by os._exit.
    """

    def open_log() -> TextIO:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a", buffering=1, encoding="utf-8")

    try:
        stream = patiently(open_log, path, "write the log")
    except FileNotFoundError as error:
        raise StorageError(f"cannot write the log {path}: {path.parent} is gone") from error
    handler = _QueuedLogFile(stream) if queued else _LogFile(stream)
    handler.setFormatter(GlogFormatter())
    logger = logging.getLogger("umiak")
    atexit.unregister(flush)
    atexit.register(flush)
    for old in [h for h in logger.handlers if isinstance(h, _LogFile)]:
        logger.removeHandler(old)
        if isinstance(old, _QueuedLogFile):
            old.drain(FLUSH_SECONDS)
        with contextlib.suppress(OSError):
            old.stream.close()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return stream


def number(value: float) -> str:
    """Six significant digits, as a C++ stream prints a float."""
    return f"{value:g}"


def evaluators(values: Mapping[str, float]) -> str:
    """Each is followed by a space, the last one too."""
    return "".join(f"{name}={number(value)} " for name, value in values.items())


def batch_line(
    batch: int,
    samples: int,
    average: float,
    current: float,
    evals: Mapping[str, float],
    current_evals: Mapping[str, float],
) -> str:
    """Progress within a pass: `average` since it began, `current` since the line before."""
    return (
        f" Batch={batch} samples={samples} AvgCost={number(average)} CurrentCost={number(current)} "
        f"Eval: {evaluators(evals)} CurrentEval: {evaluators(current_evals)}"
    )


def pass_line(pass_id: int, batch: int, samples: int, average: float, evals: Mapping[str, float]) -> str:
    return f" Pass={pass_id} Batch={batch} samples={samples} AvgCost={number(average)} Eval: {evaluators(evals)}"


def rows_line(rows: int, used: int) -> str:
    """What became of the rows of streamed files in a pass, by all trainers together."""
    return f"data: {rows} rows read, {used} used, {rows - used} left out by the parse function"


def test_line(samples: int, cost: float, evals: Mapping[str, float]) -> str:
    """A test during training. `saving_line` must come after it: scripts pair the two."""
    return f" Test samples={samples} cost={number(cost)} Eval: {evaluators(evals)}"


def averaged_line(cost: float, evals: Mapping[str, float]) -> str:
    """What averaged values score on training batches (--average_test_period)."""
    return f" Averaged parameter: cost={number(cost)} Eval: {evaluators(evals)}"


def tested_line(pass_id: int, samples: int, average: float, evals: Mapping[str, float]) -> str:
    """The result of `--job=test`."""
    return f" Pass={pass_id} samples={samples} AvgCost={number(average)} Eval: {evaluators(evals)}"


def saving_line(snapshot: Path) -> str:
    return f"Saving parameters to {snapshot}"


def table_line(name: str, stats: Mapping[str, float]) -> str:
    """A sparse table at the end of a pass: its size, the share of this pass's touches that made a row, and what expired."""
    return (
        f"Table {name}: rows={stats['rows']:.0f} waiting={stats['waiting']:.0f} bytes={stats['bytes']:.0f} "
        f"new={stats['new']:.2%} expired={stats['expired']:.0f}"
    )


def stats_line(name: str, mean_value: float, max_value: float, mean_grad: float, max_grad: float) -> str:
    """Magnitudes of one parameter and of its gradient, in columns."""
    return (
        f"{name:<20} avg_abs_val={number(mean_value):<11} max_val={number(max_value):<11} "
        f"avg_abs_grad={number(mean_grad):<11} max_grad={number(max_grad):<11}"
    )
