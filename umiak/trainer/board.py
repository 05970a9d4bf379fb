"""A TensorBoard event file that is only ever appended to.

tensorboardX's own writer hands events to a thread; one error of the disk ends that thread, and the training then waits for it
for ever. Here an event is on its way to the file before the next round.
"""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c
from tensorboardX.summary import scalar

from umiak.files import append, make_directory

VERSION = "brain.Event:2"


class Board:
    def __init__(self, directory: Path, step: int) -> None:
        """A new file, which has TensorBoard forget what earlier ones say of `step` and later."""
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{secrets.token_hex(4)}"
        self._path = directory / name
        make_directory(directory)
        start = SessionLog(status=SessionLog.START)
        self._write([Event(file_version=VERSION), Event(step=step, session_log=start)])

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        self._write([Event(step=step, summary=scalar(name, value)) for name, value in scalars.items()])

    def _write(self, events: list[Event]) -> None:
        for event in events:
            event.wall_time = time.time()
        append(self._path, b"".join(_record(event.SerializeToString()) for event in events))


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))
