"""The supervisors of a local job as forked processes: each is started, watched, and started again should it be lost."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence

from umiak import logs
from umiak.rundir import layout
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.wire.server import FrameServer
from umiak.worker.forked import start_trainer
from umiak.worker.supervisor import WorkerPlan
from umiak.worker.supervisor import main as supervise

ENDING_SECONDS = 10.0
POLL_SECONDS = 0.05


class Supervisors:
    """One process for each plan. The process group of each also has the server and the trainer that it starts."""

    def __init__(self, plans: Sequence[WorkerPlan], settings: Settings, loaded: Loaded, server: FrameServer) -> None:
        self._plans, self._settings, self._loaded, self._server = plans, settings, loaded, server
        self._pids: dict[int, int] = {}
        self._joined: set[int] = set()
        """Those whose process was connected to the coordinator."""

    def look_after(self, is_connected: Callable[[int], bool]) -> None:
        """Start those that are not there. One that was connected and is not any more was given up: it is stopped, not dead."""
        for index, plan in enumerate(self._plans):
            if index in self._pids and os.waitpid(self._pids[index], os.WNOHANG)[0]:
                _kill_group(self._pids.pop(index))
                self._joined.discard(index)
            if is_connected(index):
                self._joined.add(index)
            elif index in self._joined and index in self._pids:
                _kill_group(self._pids[index])
            elif index not in self._pids:
                self._pids[index] = self._fork(plan)

    def wait(self) -> None:
        """Let them end by themselves, for a while."""
        deadline = time.monotonic() + ENDING_SECONDS
        while self._pids and time.monotonic() < deadline:
            self._server.poll(POLL_SECONDS)
            self._pids = {index: pid for index, pid in self._pids.items() if not os.waitpid(pid, os.WNOHANG)[0]}

    def kill(self) -> None:
        """End those that are left, with everything they started."""
        for pid in self._pids.values():
            _kill_group(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _fork(self, plan: WorkerPlan) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._server.close()
            stream = logs.setup(plan.directory / layout.WORKER_LOG, queued=True)
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            code = supervise(plan, start_trainer(plan, self._settings, self._loaded))
        finally:
            logs.flush()
            os._exit(code)


def _kill_group(pid: int) -> None:
    """End a supervisor and whatever it started: they are one process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
