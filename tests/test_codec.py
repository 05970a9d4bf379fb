"""The messages of a round: what is encoded is decoded as it was, and the bytes in the module's own words are true."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from umiak.errors import InputError, UmiakError
from umiak.pserver import codec
from umiak.pserver.codec import (
    CheckpointMessage,
    Encoded,
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
from umiak.pserver.protocol import Dense, Fetch, Flags, RoundResult, ServiceSpec, TableSpec
from umiak.pserver.service import Contribution, Service
from umiak.spec.optim import SGD, to_json
from umiak.wire.frames import HEADER, Frame, FrameError, pack, unpack_header

TABLE = TableSpec("t", 2, {"kind": "constant", "value": 0.0})
SPEC = ServiceSpec(0, 1, 1, 1, to_json(SGD(lr=0.5)), {}, [("w", 0, 2)], [TABLE], 0, 1)
SHOWN = [
    bytes.fromhex(line) for line in re.findall(r"^    ((?:[0-9a-f]{2} +)+[0-9a-f]{2})$", codec.__doc__ or "", re.M)
]


def values(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def received(encoded: Encoded) -> Frame:
    """A message as the other side receives it."""
    data = np.frombuffer(b"".join(pack(*encoded)), np.uint8)
    kind, head, _ = unpack_header(data[: HEADER.size].tobytes(), 1 << 20)
    return Frame(kind, data[HEADER.size : HEADER.size + head].data, data[HEADER.size + head :])


def test_the_round_with_two_keys_that_the_module_shows_is_what_is_sent() -> None:
    service = Service(SPEC, values(1, 1))
    service.fetch(0, [np.array([7, 9])], Fetch.CREATE)
    gradients = values(0.5, -1), [values(1, 0, 0, 2).reshape(2, 2)]
    frame = received(RoundMessage(5, 4, Flags.NONE, 2.5, [np.array([9])], *gradients).encode())
    assert [bytes(frame.head), frame.body.tobytes()] == SHOWN[:2]

    service.round = 5
    part = RoundMessage.decode(frame, 2, [(2, 2)])
    service.want(0, part.ids)
    answer = service.take(0, part.round, Contribution(part.samples, part.flags, part.cost, part.dense, part.rows))
    assert answer is not None
    body = answer.values.tobytes() + service.rows(0)[0].tobytes()
    assert [ReplyHead.encode(answer.result), body] == SHOWN[2:]
    assert ReplyHead.decode(SHOWN[2]) == RoundResult(5, 4, Flags.NONE, 2.5) == answer.result


def test_a_trainer_without_samples_sends_ids_and_no_gradients() -> None:
    sent = RoundMessage(1, 0, Flags.OUT_OF_DATA, 0.0, [np.array([3, 4]), np.array([], np.int64)], None, ())
    read = RoundMessage.decode(received(sent.encode()), 2, [(5, 2), (0, 2)])
    assert [part.tolist() for part in read.ids] == [[3, 4], []]
    assert read[:4] == sent[:4] and read.dense is None and not read.rows


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (received((codec.Kind.ROUND, codec._ROUND.pack(0, 1, 0, 0.0), [values(1, 2, 3)])), "3 gradient values"),
        (
            received((codec.Kind.ROUND, codec._ROUND.pack(0, 0, 0, 0.0), [values(1, 2)])),
            "gradients of no samples",
        ),
        (
            received((codec.Kind.ROUND, codec._ROUND.pack(0, 1, 0, 0.0) + bytes([9] * 8), [])),
            "ids in a body of 0",
        ),
    ],
    ids=["too many", "no samples", "too few bytes"],
)
def test_a_round_that_does_not_fit_the_service_is_refused(frame: Frame, complaint: str) -> None:
    with pytest.raises(FrameError, match=complaint):
        RoundMessage.decode(frame, 2, [])


def test_a_fetch_is_read_as_it_was_asked() -> None:
    read = FetchMessage.decode(received(FetchMessage(Fetch.AGAIN, Dense.AVERAGED, [np.array([1 << 62])]).encode()))
    assert (read.how, read.dense, [part.tolist() for part in read.ids]) == (Fetch.AGAIN, Dense.AVERAGED, [[1 << 62]])
    for head in ((9, 0), (0, 9)):
        with pytest.raises(FrameError, match="a FETCH of unknown"):
            FetchMessage.decode(received((codec.Kind.FETCH, codec._FETCH.pack(*head), ())))


@pytest.mark.parametrize(
    ("restore", "words"),
    [
        (None, None),
        (Restore("checkpoint", "there", continues=True), {"kind": "checkpoint", "directory": "there", "goes_on": True}),
        (
            Restore("snapshot", "there", continues=False, missing="zero"),
            {"kind": "snapshot", "directory": "there", "goes_on": False, "missing": "zero"},
        ),
    ],
    ids=["fresh", "checkpoint", "snapshot"],
)
def test_a_setup_keeps_the_words_of_the_wire(restore: Restore | None, words: dict[str, Any] | None) -> None:
    frame = received(SetupMessage(SPEC, restore, values(1, 2)).encode())
    assert frame.json()["restore"] == words
    read = SetupMessage.decode(frame)
    assert (read.spec, read.restore, read.values.tolist()) == (SPEC, restore, [1.0, 2.0])


def test_the_other_messages_are_read_as_they_were_written() -> None:
    assert ReduceMessage.decode(received(ReduceMessage(np.array([1.5, 2.0])).encode())).vector.tolist() == [1.5, 2.0]
    checkpoint = CheckpointMessage.decode(received(CheckpointMessage("there", b"state").encode()))
    assert checkpoint.directory == "there" and bytes(checkpoint.state) == b"state"
    assert SnapshotMessage.decode(received(SnapshotMessage("there").encode())) == SnapshotMessage("there")
    numbers = StatisticsMessage({"t": {"rows": 3}})
    assert StatisticsMessage.decode(received(numbers.encode())) == numbers


@pytest.mark.parametrize("error", [None, InputError("no space")], ids=["written", "failed"])
def test_what_was_written_or_why_not_arrives(error: UmiakError | None) -> None:
    sent = WrittenMessage(None if error else [1], error)
    read = WrittenMessage.decode(received(sent.encode()).json())
    assert read.result == sent.result
    assert (type(read.error), str(read.error)) == (type(error), str(error))
