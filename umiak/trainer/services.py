"""A service as a trainer calls it: a remote one over a connection, or a local one in this very process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from umiak.errors import UmiakError, described
from umiak.pserver import pieces
from umiak.pserver.codec import (
    REPLY_BYTES,
    Arrays,
    CheckpointMessage,
    DoneMessage,
    FetchMessage,
    ReduceMessage,
    ReplyHead,
    Restore,
    RoundMessage,
    SetupMessage,
    SnapshotMessage,
    StatisticsMessage,
    WrittenMessage,
)
from umiak.pserver.protocol import Dense, Fetch, Flags, RoundResult, ServiceSpec
from umiak.pserver.service import Contribution, Service
from umiak.pserver.writer import run
from umiak.wire.frames import Channel, Kind


class ServiceClient(Protocol):
    """Calls come in pairs: what is sent to all services first is then received from all of them."""

    def setup(self, spec: ServiceSpec, values: np.ndarray, restore: Restore | None) -> None: ...
    def ready(self) -> None:
        """Wait until what `setup` asked for is done: a restored service has read its checkpoint by then."""

    def send_fetch(self, ids: Arrays, how: Fetch, dense: Dense) -> None: ...
    def send_round(
        self, round_id: int, samples: int, flags: Flags, cost: float, ids: Arrays, dense: np.ndarray, rows: Arrays
    ) -> None: ...
    def receive(self, parts: Arrays) -> RoundResult:
        """The answer to a fetch or a round, written into `parts`."""

    def reduce(self, vector: np.ndarray) -> np.ndarray: ...
    def statistics(self) -> dict[str, dict[str, int]]:
        """What `Service.statistics` says of its tables."""

    def checkpoint(self, directory: Path, blob: bytes) -> None: ...
    def snapshot(self, directory: Path) -> None: ...
    def written(self, wait: bool) -> Any | None:
        """The result of the oldest checkpoint or snapshot asked for that has not been given yet; None if not ready."""

    def traffic(self) -> tuple[int, int]:
        """Bytes sent and received so far."""

    def close(self) -> None: ...


class RemoteService:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._head = memoryview(bytearray(REPLY_BYTES))
        self._results: list[dict[str, Any]] = []

    def setup(self, spec: ServiceSpec, values: np.ndarray, restore: Restore | None) -> None:
        self.channel.send(*SetupMessage(spec, restore, values).encode())

    def ready(self) -> None:
        self._expect_done()

    def send_fetch(self, ids: Arrays, how: Fetch, dense: Dense) -> None:
        self.channel.send(*FetchMessage(how, dense, ids).encode())

    def send_round(
        self, round_id: int, samples: int, flags: Flags, cost: float, ids: Arrays, dense: np.ndarray, rows: Arrays
    ) -> None:
        message = RoundMessage(round_id, samples, flags, cost, ids, dense if samples else None, rows)
        self.channel.send(*message.encode())

    def receive(self, parts: Arrays) -> RoundResult:
        self.channel.receive_parts(Kind.REPLY, self._head, parts, self._results)
        return ReplyHead.decode(self._head)

    def reduce(self, vector: np.ndarray) -> np.ndarray:
        self.channel.send(*ReduceMessage(vector).encode())
        total = np.empty_like(vector)
        self.channel.receive_parts(Kind.REPLY, memoryview(b""), [total], self._results)
        return total

    def statistics(self) -> dict[str, dict[str, int]]:
        self.channel.send(*StatisticsMessage().encode())
        while (frame := self.channel.receive()).kind is Kind.DONE:
            self._results.append(frame.json())
        if frame.kind is Kind.ERROR:
            raise described(frame.json())
        return StatisticsMessage.decode(frame).tables or {}

    def checkpoint(self, directory: Path, blob: bytes) -> None:
        self.channel.send(*CheckpointMessage(str(directory), blob).encode())

    def snapshot(self, directory: Path) -> None:
        self.channel.send(*SnapshotMessage(str(directory)).encode())

    def written(self, wait: bool) -> Any | None:
        if not self._results and wait:
            self._expect_done()
        return WrittenMessage.decode(self._results.pop(0)).result if self._results else None

    def _expect_done(self) -> None:
        frame = self.channel.receive()
        if frame.kind is Kind.ERROR:
            raise described(frame.json())
        if frame.kind is not Kind.DONE:
            raise UmiakError(f"{self.channel.peer} answered with a {frame.kind.name} frame")
        if head := frame.json():
            self._results.append(head)

    def traffic(self) -> tuple[int, int]:
        return self.channel.bytes_sent, self.channel.bytes_received

    def close(self) -> None:
        self.channel.send(*DoneMessage.encode())
        self.channel.close()


class LocalService:
    """A service without a server: training in one process."""

    service: Service

    def __init__(self) -> None:
        self._answer: tuple[RoundResult, list[np.ndarray]]
        self._results: list[dict[str, Any]] = []

    def setup(self, spec: ServiceSpec, values: np.ndarray, restore: Restore | None) -> None:
        self.service = Service(spec, values)
        if restore:
            pieces.restore(self.service, restore)

    def ready(self) -> None:
        pass

    def send_fetch(self, ids: Arrays, how: Fetch, dense: Dense) -> None:
        parts = [*self.service.dense.read(dense), *self.service.fetch(0, ids, how)]
        self._answer = RoundResult(self.service.round, 0, Flags.NONE, 0.0), parts

    def send_round(
        self, round_id: int, samples: int, flags: Flags, cost: float, ids: Arrays, dense: np.ndarray, rows: Arrays
    ) -> None:
        self.service.want(0, ids)
        answer = self.service.take(0, round_id, Contribution(samples, flags, cost, dense, rows))
        assert answer is not None, "a round of one trainer is complete at once"
        self._answer = answer.result, [answer.values, *self.service.rows(0)]

    def receive(self, parts: Arrays) -> RoundResult:
        result, values = self._answer
        for part, value in zip(parts, values, strict=True):
            part[...] = value
        return result

    def reduce(self, vector: np.ndarray) -> np.ndarray:
        return vector.copy()

    def statistics(self) -> dict[str, dict[str, int]]:
        return self.service.statistics()

    def checkpoint(self, directory: Path, blob: bytes) -> None:
        blobs = {0: np.frombuffer(blob, np.uint8)}
        self._results.append(run(lambda: pieces.write(directory, self.service, blobs, forked=False)))

    def snapshot(self, directory: Path) -> None:
        self._results.append(run(lambda: pieces.write_open_tables(directory, self.service)))

    def written(self, wait: bool) -> Any | None:
        if not self._results:
            return None
        written = WrittenMessage.decode(self._results.pop(0))
        if written.error is not None:
            raise written.error
        return written.result

    def traffic(self) -> tuple[int, int]:
        return 0, 0

    def close(self) -> None:
        pass
