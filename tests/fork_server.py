"""Processes of umiak that do not import torch again: forks of one process per pytest worker that has imported it once.

`import torch` takes longer than most of what the tests do with it. `ForkedPopen` is a Popen for `python -m MODULE …`: the fork
runs the module as `python -m` does, in a session, directory and environment of its own. Only what Python reads when it starts
(PYTHONHASHSEED and the like) has no effect. A test of the start itself uses an ordinary Popen.

    pytest worker ── ForkedPopen ──▶ fork server ── fork ──▶ a process that ends at once ── fork ──▶ python -m umiak.cli.main

The parameter servers that such a process starts are forks, too (`ServerFork`). To start, a server takes 0.7 s of the processor,
and the tests start hundreds. The cluster tests, and tests that start a fresh interpreter, have servers that are programs of their
own.

An orphan becomes a child of its nearest ancestor that asks for orphans, here the pytest worker. So the test itself waits for
the process it started, as for any child.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import logging
import os
import resource
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

# What most verbs import. Nothing here starts a thread, which a fork would lose.
PRELOADED = (
    "matplotlib.pyplot",
    "umiak.cli.train",
    "umiak.cli.paddle",
    "umiak.evaluation",
    "umiak.launch.local",
    "umiak.pod.main",
    "umiak.trainer.board",
    "umiak.trainer.run",
    "umiak.worker.server",
)
SERVER = "umiak.worker.server"
SERVER_NAME = b"umiak-server"
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
LENGTH = struct.Struct("!I")
PYTHON = [sys.executable, "-m"]


class ForkedPopen(subprocess.Popen[Any]):
    """Overrides the one step in which Popen makes its child; pipes, waiting and signals are Popen's own."""

    def _execute_child(
        self,
        args: list[str],
        executable: Any,
        preexec_fn: Any,
        close_fds: Any,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        *rest: Any,
    ) -> None:
        assert args[:2] == PYTHON and preexec_fn is None and executable is None and not pass_fds, args
        # After the two arguments and the flag that only others use: both ends of the pipes of stdin, stdout and stderr.
        pipes = rest[3:9]
        given = [mine if mine != -1 else number for number, mine in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {
            "module": args[2],
            "words": args[3:],
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": dict(env or os.environ),
        }
        self.pid = _server().fork(request, given)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class ServerFork(subprocess.Popen[Any]):
    """`python -m umiak.worker.server` without a new interpreter: a fork of the process that starts it."""

    def _execute_child(self, args: list[str], *rest: Any) -> None:
        if args != [*PYTHON, SERVER]:
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        pipes = rest[9:15]  # both ends of those of stdin, stdout and stderr
        self.pid = os.fork()
        if self.pid == 0:
            _serve_parameters(*(mine for mine in (pipes[0], pipes[3], pipes[5])))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _serve_parameters(*given: int) -> None:
    """In the fork: what a new interpreter would have of its own, then the program. Never returns."""
    code = 1
    try:
        for number, mine in enumerate(given):
            if mine != -1:
                os.dup2(mine, number)
        logging.getLogger("umiak").handlers.clear()
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_NAME, SERVER_NAME)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        code = importlib.import_module(SERVER).main()
    finally:
        os._exit(code)


class _Server:
    """The pytest worker's end."""

    def __init__(self) -> None:
        assert ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        self._lock = threading.Lock()
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [*PYTHON, "tests.fork_server", str(other.fileno())],
                cwd=Path(__file__).parents[1],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def fork(self, request: dict[str, Any], given: list[int]) -> int:
        with self._lock:
            body = json.dumps(request).encode()
            socket.send_fds(self._socket, [LENGTH.pack(len(body))], given)
            self._socket.sendall(body)
            (pid,) = LENGTH.unpack(_exactly(self._socket, LENGTH.size))
            return pid

    def close(self) -> None:
        self._socket.close()
        self._process.wait(10)


@functools.cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.close)
    return server


def _exactly(source: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = source.recv(count - len(found))
        if not more:
            raise ConnectionError("the fork server has ended; what it said is above")
        found += more
    return found


def serve(source: socket.socket) -> dict[str, Any] | None:
    """Fork for every request. Returns in each fork what it is to do, and None in the server once nobody asks any more."""
    while True:
        head, given, _, _ = socket.recv_fds(source, LENGTH.size, 3)
        if not head:
            return None
        request: dict[str, Any] = json.loads(_exactly(source, LENGTH.unpack(head)[0]))
        reader, writer = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                os.close(writer)
                source.close()
                _become(request, given)
                return request
            os.write(writer, LENGTH.pack(pid))
            os._exit(0)
        os.waitpid(between, 0)
        source.sendall(os.read(reader, LENGTH.size))
        for number in (reader, writer, *given):
            os.close(number)


def _become(request: dict[str, Any], given: list[int]) -> None:
    """In the fork: everything that a new process has of its own."""
    os.setsid()
    for number, mine in enumerate(given):
        os.dup2(mine, number)
        os.close(mine)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    # A shell that runs the tests in the background has all their processes ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [request["module"], *request["words"]]
    sys.path[0] = request["cwd"]


def _load_kernels() -> None:
    """From numba's cache, without a trace in what torch does later."""
    import torch

    from umiak.pserver import warm
    from umiak.worker.forked import warm_up

    threads = torch.get_num_threads()
    warm_up()  # with one thread
    warm.main()
    torch.set_num_threads(threads)


def main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    _load_kernels()
    # A fork runs it as a program.
    sys.modules.pop("umiak.cli.main", None)
    gc.collect()
    gc.freeze()  # or the first collection of every fork would copy all of this
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        subprocess.Popen = ServerFork  # type: ignore[misc]
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
