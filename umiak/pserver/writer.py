"""File work beside the rounds: a forked copy of the process writes its memory as it was, while the original continues."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from umiak.errors import RetryError, UmiakError, describe
from umiak.system import die_with_parent
from umiak.wire.server import FrameServer


def write_apart(server: FrameServer, work: Callable[[], Any], done: Callable[[dict[str, Any]], None]) -> None:
    """Run `work` in a forked child; `done` gets {"result": …} or {"message", "exit_code"} when it has ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        die_with_parent()
        os.close(reading)
        os.write(writing, json.dumps(run(work)).encode())
        os._exit(0)
    os.close(writing)
    chunks: list[bytes] = []

    def read() -> None:
        if data := os.read(reading, 1 << 16):
            chunks.append(data)
            return
        server.unwatch(reading)
        os.close(reading)
        os.waitpid(child, 0)
        lost = describe(RetryError("the process that wrote a checkpoint was killed"))
        done(json.loads(b"".join(chunks)) if chunks else lost)

    server.watch(reading, read)


def run(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": work()}
    except UmiakError as error:
        return describe(error)
    except Exception as error:
        return describe(UmiakError(f"writing failed: {error!r}"))
