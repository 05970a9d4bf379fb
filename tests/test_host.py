"""A parameter server and its trainers: who is admitted, what happens when one is lost, and how jobs follow one another."""

from __future__ import annotations

import contextlib
import random
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.served import Served, served
from umiak.errors import RetryError, UmiakError
from umiak.pserver import endpoint as endpoint_module
from umiak.pserver.host import Host
from umiak.pserver.protocol import Dense, Fetch, Flags, ServiceSpec, TableSpec
from umiak.pserver.reach import Reach
from umiak.spec.optim import SGD, to_json
from umiak.trainer.services import RemoteService
from umiak.wire.frames import Kind, pack

DENSE = 4
NOWHERE = Path("/nowhere")
IDS = np.array([3, 1 << 40])


def spec(trainers: int = 2, mode: str = "sync") -> ServiceSpec:
    table = TableSpec("t", 2, {"kind": "normal", "mean": 0.0, "std": 0.1})
    return ServiceSpec(0, 1, trainers, 1, to_json(SGD(lr=1.0)), {}, [("w", 0, DENSE)], [table], 0, 1, mode=mode)


def setup(service: RemoteService, value: float = 0.0, trainers: int = 2, mode: str = "sync") -> None:
    service.setup(spec(trainers, mode), np.full(DENSE, value, np.float32), None)
    service.ready()


def pull(service: RemoteService) -> np.ndarray:
    """What a trainer does first: get the dense values. Waits until trainer 0 has set the job up."""
    service.send_fetch([np.empty(0, np.int64)], Fetch.PEEK, Dense.VALUES)
    values = np.empty(DENSE, np.float32)
    service.receive([values, np.empty((0, 2), np.float32)])
    return values


def play(services: list[RemoteService], round_id: int = 0) -> np.ndarray:
    """One whole round, each trainer with a gradient of its number + 1 and one sample."""
    for number, service in enumerate(services):
        gradient = np.full(DENSE, number + 1, np.float32)
        service.send_round(round_id, 1, Flags.NONE, 0.0, [IDS], gradient, [np.empty((0, 2), np.float32)])
    values = np.empty(DENSE, np.float32)
    for service in services:
        service.receive([values, np.empty((2, 2), np.float32)])
    return values


def services_of(server: Served, trainers: int = 2) -> list[RemoteService]:
    return [RemoteService(server.join(index, count=trainers)) for index in range(trainers)]


def host(trainers: int = 2, generation: int | None = None, root: Path = NOWHERE) -> Host:
    return Host("here", generation, trainers, 1, 0, Reach(root))


def runs_a_job(server: Served, value: float, trainers: int = 2) -> None:
    services = services_of(server, trainers)
    setup(services[0], value, trainers)
    assert [pull(service).tolist() for service in services] == [[value] * DENSE] * trainers
    mean = sum(range(1, trainers + 1)) / trainers
    assert play(services).tolist() == [value - mean] * DENSE
    for service in services:
        service.close()


def in_background(call: Callable[[], Any]) -> Callable[[], Any]:
    """Start a call that may have to wait; calling what is returned waits for its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()

    def result() -> Any:
        thread.join(10)
        return results[0]

    return result


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (
            {"job": "there"},
            2,
            "trainer 0 of job 'there', generation 3 does not belong here: this server belongs to job 'here'",
        ),
        ({"role": "worker"}, 2, "worker 0 of job 'here', generation 3 does not belong here"),
        ({"generation": 2}, 75, "generation 2 is out of date: generation 3 is under way"),
        ({"count": 5}, 2, "is one of 5, but this server was started with --num_gradient_servers=2"),
        ({"index": 2}, 2, "trainer ids go from 0 to 1"),
        ({"index": -1}, 2, "trainer ids go from 0 to 1"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_who_does_not_belong_here_is_told_why(changes: dict[str, Any], code: int, message: str) -> None:
    with served(host(generation=3)) as server:
        with pytest.raises(UmiakError, match=message) as refused:
            server.join(**{"generation": 3, **changes})
        assert refused.value.exit_code == code
        assert message in server.logged("refused a stranger")
        server.join(generation=3).close()


def test_two_trainers_with_one_id_are_told_apart() -> None:
    with served(host()) as server:
        first = server.join(1)
        with pytest.raises(
            UmiakError, match=r"trainer 1 is already here, from 127\.0\.0\.1:\d+: give each its own --trainer_id"
        ):
            server.join(1)
        first.close()
        server.logged("lost trainer 1")
        server.join(1).close()


def test_jobs_follow_one_another_and_each_begins_afresh() -> None:
    with served(host()) as server:
        runs_a_job(server, 1.0)
        runs_a_job(server, 7.0)


def test_when_a_trainer_is_lost_the_others_hear_who_it_was_and_the_server_is_ready_for_the_next_job() -> None:
    with served(host()) as server:
        first, second = services_of(server)
        setup(first)
        assert play([first, second]).any()
        first.send_round(1, 1, Flags.NONE, 0.0, [IDS], np.ones(DENSE, np.float32), [np.ones((2, 2), np.float32)])
        second.channel.close()
        with pytest.raises(RetryError, match=r"trainer 1 was lost in round 1 \(the connection was closed\)"):
            first.receive([np.empty(DENSE, np.float32), np.empty((2, 2), np.float32)])
        runs_a_job(server, 3.0)


@pytest.mark.parametrize("supervised", [True, False])
def test_an_asynchronous_job_goes_on_without_a_trainer_only_where_somebody_replaces_it(supervised: bool) -> None:
    with served(host(generation=0 if supervised else None)) as server:
        first, second = services_of(server)
        setup(first, mode="async")
        second.channel.close()
        server.logged("lost trainer 1")
        if supervised:
            assert pull(first).tolist() == [0.0] * DENSE
        else:
            with pytest.raises(RetryError, match="trainer 1 was lost"):
                pull(first)
        first.channel.close()


def test_the_reason_reaches_a_trainer_that_is_still_sending() -> None:
    """Closing on it at once would reset the connection, and the reason would be lost with it."""
    with served(host()) as server:
        first, second = services_of(server)
        setup(first)
        head, body = b"".join(pack(Kind.REDUCE, b"", [bytes(32 << 20)])[:1]), bytes(32 << 20)
        second.channel.sock.sendall(head + body[: 1 << 20])
        first.channel.close()
        server.logged("lost trainer 0")
        second.channel.sock.sendall(body[1 << 20 :])
        with pytest.raises(RetryError, match="trainer 0 was lost in round 0"):
            second.receive([np.empty(DENSE, np.float32)])
        second.channel.close()
        runs_a_job(server, 3.0)


def test_a_trainer_of_the_next_job_waits_until_the_last_one_is_over() -> None:
    with served(host()) as server:
        first, second = services_of(server)
        setup(first, 1.0)
        second.close()
        early = RemoteService(server.join(1))
        values = in_background(lambda: pull(early).tolist())
        assert pull(first).tolist() == [1.0] * DENSE, "the last job still has its server"
        first.close()
        next_first = RemoteService(server.join(0))
        setup(next_first, 9.0)
        assert values() == [9.0] * DENSE
        assert play([next_first, early]).tolist() == [7.5] * DENSE
        for service in (next_first, early):
            service.close()


def test_a_result_for_a_lost_trainer_0_is_not_given_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Callable[[dict[str, Any]], None]] = []
    monkeypatch.setattr(endpoint_module, "write_apart", lambda server, work, done: written.append(done))
    with served(host(trainers=1, root=tmp_path)) as server:
        (service,) = services_of(server, 1)
        setup(service, trainers=1)
        service.checkpoint(tmp_path, b"state")
        while not written:
            time.sleep(0.01)
        service.channel.close()
        server.logged("lost trainer 0")
        (service,) = services_of(server, 1)
        written[0]({"result": "of the job before"})
        setup(service, 5.0, trainers=1)
        assert pull(service).tolist() == [5.0] * DENSE
        assert service.written(wait=False) is None
        service.close()


@pytest.mark.slow
def test_what_belongs_to_the_next_round_is_never_in_a_checkpoint_that_still_waits_for_a_trainer(tmp_path: Path) -> None:
    nothing = np.empty((0, 2), np.float32)
    with served(host(root=tmp_path)) as server:
        first, second = services_of(server)
        setup(first)
        for service in (first, second):
            service.send_round(0, 1, Flags.CHECKPOINT, 0.0, [IDS], np.zeros(DENSE, np.float32), [nothing])
        for service in (first, second):
            service.receive([np.empty(DENSE, np.float32), np.empty((2, 2), np.float32)])
        first.checkpoint(tmp_path, b"state of 0")
        first.send_fetch([np.array([77])], Fetch.CREATE, Dense.NONE)
        assert first.statistics()["t"]["rows"] == 2, "asked after the fetch on the same connection, answered before it"
        second.checkpoint(tmp_path, b"state of 1")
        first.receive([np.empty((1, 2), np.float32)])
        (piece,) = [first.written(wait=True)]
        assert sorted(load_file(tmp_path / piece["name"])["table/t/ids"]) == sorted(IDS)
        for service in (first, second):
            service.close()


def malformed(draw: random.Random) -> bytes:
    """A frame such as a trainer sends, with something wrong in it more often than not."""
    count = draw.choice([0, 1, 2, 1 << 20, 1 << 63])
    heads: list[tuple[Kind, Any]] = [
        (Kind.ROUND, struct.pack("<QIId", draw.choice([0, 1, 99]), draw.randrange(3), draw.randrange(16), 0.0)),
        (Kind.FETCH, struct.pack("<II", draw.randrange(3), draw.randrange(3))),
        (Kind.SETUP, {"spec": draw.choice([None, {}, {"blocks": 3}, {**spec(1).to_json(), "optimizer": {}}])}),
        (Kind.SETUP, {"spec": spec(1).to_json(), "restore": draw.choice([{}, {"kind": "x"}, {"directory": "none"}])}),
        (Kind.CHECKPOINT, {"directory": draw.choice([None, 1, "somewhere"])}),
        (draw.choice(list(Kind)), draw.choice([b"", b"{}", draw.randbytes(40)])),
    ]
    kind, head = draw.choice(heads)
    if isinstance(head, bytes) and draw.random() < 0.7:
        head += struct.pack("<Q", count)
    data = bytearray(b"".join(pack(kind, head, [draw.randbytes(draw.choice([0, 7, 8, 16, 32, 100]))])))
    if draw.random() < 0.3:
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


@pytest.mark.slow
def test_malformed_frames_of_a_member_end_its_job_but_never_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_module, "write_apart", lambda server, work, done: None)
    draw = random.Random(7164)
    with served(host(trainers=1), unix=tmp_path / "socket") as server:
        for number in range(1500):
            (service,) = services_of(server, 1)
            if draw.random() < 0.8:
                setup(service, trainers=1)
            with contextlib.suppress(OSError):
                service.channel.sock.sendall(malformed(draw))
            service.channel.close()
            if number % 300 == 0:
                runs_a_job(server, 2.0, 1)
        runs_a_job(server, 2.0, 1)


def test_when_the_server_cannot_make_sense_of_one_trainer_the_others_hear_it_at_once() -> None:
    with served(host()) as server:
        first, second = services_of(server)
        setup(first)
        first.channel.send(Kind.REDUCE, b"", [np.zeros(3)])
        second.channel.send(Kind.REDUCE, b"", [b"no float64"])
        with pytest.raises(UmiakError, match=r"cannot handle a REDUCE frame of trainer 1 .* see its log"):
            first.receive([])
        server.logged("cannot handle a REDUCE frame of trainer 1")
        for service in (first, second):
            service.channel.close()
        runs_a_job(server, 3.0)
