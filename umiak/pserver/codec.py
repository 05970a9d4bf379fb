"""What a trainer and a service say to each other: each message with its encoding and its decoding side by side.

One round of one trainer, at a service that holds the dense parameter w of two values, [1, 1], and a table of rows of two
values. The batch used the rows with the keys 7 and 9, both [0, 0]; the next batch needs key 9 alone. The optimizer is SGD with
a rate of 0.5. The trainer computed these gradients, as means over its 4 samples:

    w: [0.5, -1]    key 7: [1, 0]    key 9: [0, 2]    cost, summed over the samples: 2.5

It sends a ROUND of number 5. Its head is the round, samples, flags and cost, then for each table how many keys follow:

    05 00 00 00 00 00 00 00   04 00 00 00   00 00 00 00   00 00 00 00 00 00 04 40   01 00 00 00 00 00 00 00

Its body is the keys that the next batch needs, the gradient of w, and those of the rows in the order they were asked for:

    09 00 00 00 00 00 00 00   00 00 00 3f 00 00 80 bf   00 00 80 3f 00 00 00 00   00 00 00 00 00 00 00 40

The service multiplies each gradient by its samples, adds up those of all trainers, divides by all samples and updates once:

    w: [0.75, 1.5]    key 7: [-0.5, 0]    key 9: [0, -1]

It answers with a REPLY, whose head is the round, samples, flags and cost of all trainers, and how many seconds passed from this
trainer's part to that of the last one, none here:

    05 00 00 00 00 00 00 00  04 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 04 40  00 00 00 00 00 00 00 00

Its body is the new w, and the row of key 9 that was asked for:

    00 00 40 3f 00 00 c0 3f   00 00 00 00 00 00 80 bf

Arrays are not copied: what is encoded refers to those of the sender, what is decoded lies in the buffer of the connection, and
is valid until its next frame is received. docs/wire-format.md has the same as tables, and the frames around it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from umiak.errors import UmiakError, describe, described
from umiak.pserver.protocol import Dense, Fetch, Flags, RoundResult, ServiceSpec
from umiak.wire.frames import Buffer, Frame, FrameError, Kind

Arrays = Sequence[np.ndarray]
Encoded = tuple[Kind, bytes | dict[str, Any], Sequence[Buffer]]
"""Kind, head and parts of the body: the arguments of `Channel.send`, and of `FrameServer.send` after the peer."""

_ROUND = struct.Struct("<QIId")
_REPLY = struct.Struct("<QQQdd")
_FETCH = struct.Struct("<II")
_COUNT = struct.Struct("<Q")
REPLY_BYTES = _REPLY.size


def _counts(ids: Arrays) -> bytes:
    return b"".join([_COUNT.pack(part.size) for part in ids])


def _ids(frame: Frame, at: int) -> tuple[list[np.ndarray], int]:
    """The ids at the front of a body, per table as their counts in the head from `at` on say, and where they end."""
    ids, end = [], 0
    for place in range(at, len(frame.head), _COUNT.size):
        count = _COUNT.unpack_from(frame.head, place)[0]
        if end + 8 * count > frame.body.size:
            raise FrameError(f"{count} ids in a body of {frame.body.size} bytes")
        ids.append(frame.body[end : end + 8 * count].view(np.int64))
        end += 8 * count
    return ids, end


@dataclass(frozen=True)
class Restore:
    """What a service reads before the first round. Its words on the wire are those of the first version."""

    kind: str
    """checkpoint or snapshot"""
    directory: str
    continues: bool
    """Whether the same run continues, with its clock; otherwise a new run begins with the values."""
    missing: str = "fail"
    """Of a snapshot: what becomes of a table that has no file there: fail, rand or zero."""

    def to_json(self) -> dict[str, Any]:
        head = {"kind": self.kind, "directory": self.directory, "goes_on": self.continues}
        return {**head, "missing": self.missing} if self.kind == "snapshot" else head

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Restore:
        return cls(value["kind"], value["directory"], value["goes_on"], value.get("missing", "fail"))


class SetupMessage(NamedTuple):
    """Trainer 0 describes a service's part of the job, with the first dense values. The answer is an empty DONE."""

    spec: ServiceSpec
    restore: Restore | None
    values: np.ndarray

    def encode(self) -> Encoded:
        restore = self.restore.to_json() if self.restore else None
        return Kind.SETUP, {"spec": self.spec.to_json(), "restore": restore}, [self.values]

    @classmethod
    def decode(cls, frame: Frame) -> SetupMessage:
        head = frame.json()
        spec, restore = ServiceSpec.from_json(head["spec"]), head["restore"]
        return cls(spec, Restore.from_json(restore) if restore else None, frame.body.view(np.float32))


class FetchMessage(NamedTuple):
    """A trainer asks for values without a round. The answer is a REPLY."""

    how: Fetch
    dense: Dense
    ids: Arrays

    def encode(self) -> Encoded:
        return Kind.FETCH, _FETCH.pack(self.how, self.dense) + _counts(self.ids), self.ids

    @classmethod
    def decode(cls, frame: Frame) -> FetchMessage:
        how, dense = _FETCH.unpack_from(frame.head)
        if how not in Fetch._value2member_map_:
            raise FrameError(f"a FETCH of unknown kind {how}")
        if dense not in Dense._value2member_map_:
            raise FrameError(f"a FETCH of unknown values {dense}")
        return cls(Fetch(how), Dense(dense), _ids(frame, _FETCH.size)[0])


class RoundMessage(NamedTuple):
    """A trainer's part of a round, and the ids whose rows its next batch needs. The answer is a REPLY.

    Without samples there are no gradients.
    """

    round: int
    samples: int
    flags: Flags
    cost: float
    ids: Arrays
    dense: np.ndarray | None
    rows: Arrays

    def encode(self) -> Encoded:
        head = _ROUND.pack(self.round, self.samples, self.flags, self.cost) + _counts(self.ids)
        return Kind.ROUND, head, self.ids if self.dense is None else [*self.ids, self.dense, *self.rows]

    @classmethod
    def decode(cls, frame: Frame, dense: int, rows: Sequence[tuple[int, int]]) -> RoundMessage:
        """`dense` values are held by the service; `rows` are how many the trainer has of each table, and their length."""
        round_id, samples, flags, cost = _ROUND.unpack_from(frame.head)
        ids, end = _ids(frame, _ROUND.size)
        if not samples:
            if end != frame.body.size:
                raise FrameError("gradients of no samples")
            return cls(round_id, samples, Flags(flags), cost, ids, None, ())
        floats = frame.body[end:].view(np.float32)
        at, gradients = dense, []
        for count, dim in rows:
            gradients.append(floats[at : at + count * dim].reshape(-1, dim))
            at += count * dim
        if at != floats.size:
            raise FrameError(f"{floats.size} gradient values where {at} were expected")
        return cls(round_id, samples, Flags(flags), cost, ids, floats[:dense], gradients)


class ReplyHead:
    """The head of a REPLY to a round or a fetch. Its body is the dense values that were asked for, then the rows."""

    @staticmethod
    def encode(result: RoundResult, waited: float = 0.0) -> bytes:
        return _REPLY.pack(result.round, result.samples, result.flags, result.cost, waited)

    @staticmethod
    def decode(head: bytes | memoryview) -> RoundResult:
        round_id, samples, flags, cost, waited = _REPLY.unpack(head)
        return RoundResult(round_id, samples, Flags(flags), cost, waited)


class ReduceMessage(NamedTuple):
    """A float64 vector to be summed over the trainers; every one of them is answered with the sum, a REPLY without a head."""

    vector: np.ndarray

    def encode(self) -> Encoded:
        return Kind.REDUCE, b"", [self.vector]

    def encode_sum(self) -> Encoded:
        return Kind.REPLY, b"", [self.vector]

    @classmethod
    def decode(cls, frame: Frame) -> ReduceMessage:
        return cls(frame.body.view(np.float64))


class CheckpointMessage(NamedTuple):
    """A trainer's own state for a checkpoint. Trainer 0 is answered by a WrittenMessage when it is written."""

    directory: str
    state: Buffer

    def encode(self) -> Encoded:
        return Kind.CHECKPOINT, {"directory": self.directory}, [self.state]

    @classmethod
    def decode(cls, frame: Frame) -> CheckpointMessage:
        return cls(frame.json()["directory"], frame.body)


class SnapshotMessage(NamedTuple):
    """Trainer 0 wants the open tables of a snapshot written, and is answered by a WrittenMessage."""

    directory: str

    def encode(self) -> Encoded:
        return Kind.SNAPSHOT, {"directory": self.directory}, ()

    @classmethod
    def decode(cls, frame: Frame) -> SnapshotMessage:
        return cls(frame.json()["directory"])


class StatisticsMessage(NamedTuple):
    """A trainer asks how large the tables are: empty. In the answer, the numbers of each table by name."""

    tables: dict[str, dict[str, int]] | None = None

    def encode(self) -> Encoded:
        return Kind.STATISTICS, b"" if self.tables is None else self.tables, ()

    @classmethod
    def decode(cls, frame: Frame) -> StatisticsMessage:
        return cls(frame.json())


class WrittenMessage(NamedTuple):
    """What was written for a CHECKPOINT or a SNAPSHOT, or why it was not: a DONE or an ERROR.

    It comes when the files are there, maybe before the answer to a later round.
    """

    result: Any
    error: UmiakError | None = None

    def encode(self) -> Encoded:
        if self.error is not None:
            return Kind.ERROR, describe(self.error), ()
        return Kind.DONE, {"result": self.result}, ()

    @classmethod
    def decode(cls, head: dict[str, Any]) -> WrittenMessage:
        return cls(None, described(head)) if "message" in head else cls(head["result"])


class DoneMessage:
    """Nothing but that it is done: of a service, the SETUP; of a trainer, its part of the job."""

    @staticmethod
    def encode() -> Encoded:
        return Kind.DONE, {}, ()
