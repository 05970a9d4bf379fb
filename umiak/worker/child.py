"""A trainer as a forked child: its events come through one pipe, stop requests and the parent's death through another."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from umiak import logs
from umiak.errors import UmiakError
from umiak.files import disk_error, is_of_volume
from umiak.messages import events
from umiak.messages.events import Ended, Event
from umiak.system import need_linux

log = logging.getLogger("umiak.trainer")

Report = Callable[[Event], None]
Work = Callable[[Report, Callable[[], bool], TextIO], None]
"""What the child does, given where to report, whether to stop, and where dots go."""


class TrainerChild:
    def __init__(self, work: Work, log_file: Path, close_in_child: list[int], echo: bool = False) -> None:
        """Fork. `close_in_child` are descriptors of the parent whose other ends must see it die.

        With `echo` what goes to the log file goes to the parent's standard output too, dots left out.
        """
        need_linux("a trainer of a job", "train in one process with umiak train --local")
        reports, reports_in = os.pipe()
        control_out, control = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for fd in (reports, control, *close_in_child):
                with contextlib.suppress(OSError):
                    os.close(fd)
            _child(work, log_file, reports_in, control_out, echo)
        os.close(reports_in)
        os.close(control_out)
        self.reports, self._control = reports, control
        self._open = [reports, control]
        self.closed = False
        self._buffer = b""
        self._ended: Ended | None = None
        self._code: int | None = None

    def events(self) -> list[Event]:
        """What the child has reported since the last call."""
        while not self.closed and select.select([self.reports], [], [], 0)[0]:
            data = os.read(self.reports, 1 << 16)
            self.closed = not data
            self._buffer += data
        lines, separator, rest = self._buffer.rpartition(b"\n")
        self._buffer = rest
        found = events.decode_lines(lines) if separator else []
        self._ended = next((event for event in found if isinstance(event, Ended)), self._ended)
        return [event for event in found if not isinstance(event, Ended)]

    def poll(self) -> tuple[int, str, str] | None:
        """Exit code, message and kind of error once the child has ended."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if not pid:
                return None
            self._code = os.waitstatus_to_exitcode(status)
            self.events()
        return (self._code, self._ended.message, self._ended.kind) if self._ended else (self._code, "", "")

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._control, b"s")

    def kill(self) -> None:
        """Have it end. It may take a while: one that waits for a disk dies only once that answers."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def gone(self, wait: bool = False) -> bool:
        """Whether nothing of it is left."""
        if self._code is None:
            with contextlib.suppress(ChildProcessError):
                if not os.waitpid(self.pid, 0 if wait else os.WNOHANG)[0]:
                    return False
            self._code = -signal.SIGKILL
        while self._open:
            os.close(self._open.pop())
        self.closed = True
        return True


def _child(work: Work, log_file: Path, reports: int, control: int, echo: bool) -> None:
    """Never returns."""
    code, message, kind = 1, "", ""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        stop = threading.Event()
        threading.Thread(target=_listen, args=(control, stop), daemon=True).start()
        stream = logs.setup(log_file)
        out = _tee(log_file) if echo else stream.fileno()
        os.dup2(out, 1)
        os.dup2(out, 2)
        faulthandler.enable(file=2)
        faulthandler.register(signal.SIGUSR1, file=2)
        work(lambda event: _send(reports, event), stop.is_set, stream)
        code = 0
    except UmiakError as error:
        code, message, kind = error.exit_code, str(error), type(error).__name__
        log.error("%s", error)
    except BaseException as error:
        message = f"{type(error).__name__}: {error} ({_place(error)})"
        log.exception("the trainer failed")
        if is_of_volume(error):
            told = disk_error(error, Path(error.filename or log_file))
            # Its kind is not told: nobody was patient about this file yet, so a restart may be all it needs.
            code, message = told.exit_code, str(told)
    finally:
        with contextlib.suppress(OSError):
            _send(reports, Ended(message, kind))
        os._exit(code)


def _tee(log_file: Path) -> int:
    """Where a program's own output goes so that it ends up in the log file and on standard output."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    read, write = os.pipe()
    # It outlives a trainer that is killed by as much as it takes to write the last lines.
    subprocess.Popen(["tee", "-a", str(log_file)], stdin=read, start_new_session=True)
    os.close(read)
    return write


def _send(fd: int, event: Event) -> None:
    data = events.encode_line(event)
    while data:
        data = data[os.write(fd, data) :]


def _listen(control: int, stop: threading.Event) -> None:
    """Stop when asked; end at once when the parent is gone."""
    while os.read(control, 1):
        stop.set()
    os._exit(75)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "no traceback"
