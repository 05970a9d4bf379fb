"""A local job in an interpreter of its own: what umiak.train starts, because a process that has used torch cannot be forked.

The request (request.py) comes pickled on stdin, which then stays open as lifeline: when the caller is gone, training stops with a
checkpoint. Events go, as lines of JSON, to the descriptor named as argument.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import traceback

from umiak.errors import InputError, RetryError, UmiakError
from umiak.launch import local
from umiak.launch.request import Request
from umiak.messages.events import Event, Failed, encode_line
from umiak.paddle_v1.registration import register
from umiak.spec.load import Loaded


def main(events: int) -> int:
    def report(event: Event) -> None:
        data = encode_line(event)
        with contextlib.suppress(BrokenPipeError):  # the caller is gone, and the lifeline stops the job
            while data:
                data = data[os.write(events, data) :]

    def failed(message: str, code: int) -> int:
        report(Failed(message))
        return code

    try:
        register()
        request: Request = pickle.load(sys.stdin.buffer)
        sys.path[:] = request.path
        threading.Thread(target=_interrupt_when_alone, daemon=True).start()
        return local.train(request.settings, report, _loaded(request.config))
    except UmiakError as error:
        return failed(str(error), error.exit_code)
    except KeyboardInterrupt:
        return failed("stopped before training began", RetryError.exit_code)
    except Exception as error:
        traceback.print_exc()
        return failed(f"{type(error).__name__}: {error}", UmiakError.exit_code)


def _loaded(config: bytes | None) -> Loaded | None:
    """The config that came with the request; None where the settings name a file."""
    if config is None:
        return None
    try:
        return Loaded(pickle.loads(config))
    except Exception as error:
        raise InputError(
            f"the config cannot be rebuilt in the training process: {type(error).__name__}: {error}; define what it uses in "
            "the notebook or script itself or in a module that can be imported, or write it to a file and give its path"
        ) from error


def _interrupt_when_alone() -> None:
    while os.read(0, 1):
        continue
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
