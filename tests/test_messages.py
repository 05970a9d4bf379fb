"""Messages keep their meaning on the way: every kind of both families survives it, and the keys are those others rely on."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from umiak.errors import UmiakError
from umiak.messages import control, events
from umiak.messages.control import ServiceAddress
from umiak.messages.events import Baseline, Event, Pass
from umiak.messages.failure import Failure

PASS = Pass(1, 8, 640, {"cost": 0.5}, {"cost": 0.6, "auc": 0.7}, {"user": {"rows": 3.0}}, dropped=0.1, seconds=2.5)
EVENTS: list[Event] = [
    events.Start(3, 3, 1200, 1, "out", 0),
    events.Alive(),
    events.Alive(7),
    events.Phase(1, "training"),
    events.Round(1, 2, 9, 0.5, 1000.0),
    events.Work(1, 9, 5, 2.0, 1.0, 0.5, 0.25, 0.25, 4096, 8192),
    events.Processes(1, {"trainer": {"memory": 5e8, "cpu": 0.9}}),
    PASS,
    Pass(0, 4, 320, {"cost": 0.9}, None),
    events.Snapshot("out/pass-00001"),
    events.Checkpoint("out/checkpoints/round-8", 8),
    events.Restart(2, 1, "trainer of worker 1: killed"),
    events.Notice("warning: slow"),
    events.Compared(Baseline("mean", "rmse", 0.94)),
    events.Done(9.5, "out/pass-00001", "out/curves.png", (PASS,), Baseline("mean", "rmse", 0.94)),
    events.Done(9.5, "out/pass-00001", "out/curves.png", (), None),
    events.Failed("no such file"),
    events.Ended("no such file", "InputError"),
]
SERVICES = (ServiceAddress("127.0.0.1:7164", True, False, 0), ServiceAddress("unix:/tmp/s"))
ORDERS: list[control.Order] = [
    control.Beat(),
    control.Prepare(3),
    control.StartTrainer(3, SERVICES, "round-0000000008-0002", False),
    control.StartTrainer(0, SERVICES, None, True),
    control.Stop(),
    control.DumpStacks(),
    control.Waiting("waiting for worker 2"),
    control.Finish(0, "", None),
    control.Finish(1, "gave up", Failure(1, "trainer", -9, "killed", 8, "last lines", "OutOfMemory", 1.5)),
]
REPORTS: list[control.Report] = [
    control.Here(),
    control.Busy(),
    control.Busy("staging", 4096),
    *(control.Reported(event) for event in EVENTS),
    control.Ready(SERVICES),
    control.ProcessEnded("trainer", -9, "killed", "OutOfMemory", "last lines"),
    control.Leaving(),
    control.CannotPrepare(2, "no such file"),
]


def named(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("event", EVENTS, ids=named)
def test_an_event_survives_the_way(event: Event) -> None:
    assert events.decode(json.loads(json.dumps(events.encode(event)))) == event


@pytest.mark.parametrize("order", ORDERS, ids=named)
def test_an_order_survives_the_way(order: control.Order) -> None:
    assert control.decode_order(json.loads(json.dumps(control.encode_order(order)))) == order


@pytest.mark.parametrize("report", REPORTS, ids=named)
def test_a_report_survives_the_way_with_its_generation(report: control.Report) -> None:
    assert control.decode_report(json.loads(json.dumps(control.encode_report(report, 4)))) == (report, 4)


def test_no_kind_is_left_out_here() -> None:
    for family, shown in ((events.FAMILY, EVENTS), (control.ORDERS, ORDERS), (control.REPORTS, REPORTS)):
        assert {type(each) for each in shown} == set(family.kinds.values())


def test_the_keys_of_metrics_jsonl_and_of_lines_for_clients_stay() -> None:
    assert events.encode_line(events.Round(1, 2, 9, 0.5, 10.0)) == (
        b'{"event": "round", "pass": 1, "batch": 2, "round": 9, "cost": 0.5, "samples_per_s": 10.0}\n'
    )
    whole = ["event", "pass", "round", "samples", "train", "test", "tables", "dropped", "seconds"]
    assert list(events.encode(PASS)) == whole
    plain = events.encode(Pass(0, 4, 320, {"cost": 0.9}, None))
    assert list(plain) == [key for key in whole if key not in ("tables", "dropped")] and plain["test"] is None
    assert events.encode(events.Compared(Baseline("mean", "rmse", 0.9))) == {
        "event": "baseline",
        "baseline": {"name": "mean", "metric": "rmse", "value": 0.9},
        "round": 0,
    }
    start = ["event", *(field.name for field in fields(events.Start))]
    assert (
        list(events.encode(EVENTS[0]))
        == start
        == ["event", "workers", "services", "parameters", "tables", "out", "round"]
    )


def test_what_a_later_version_says_is_passed_over_and_not_an_error() -> None:
    assert events.decode({"event": "rebalanced", "round": 3}) is None
    assert events.decode({"event": "note", "text": "hello", "level": 3}) == events.Notice("hello")
    lines = (
        b'{"event": "rebalanced"}\n[]\n{"event": "round", "pass": 0}\n{"event": "note", "text": "hello"}\n{"event": "no'
    )
    assert events.decode_lines(lines) == [events.Notice("hello")]
    assert [events.round_in_line(line) for line in (b'{"event": "new", "round": 4}', b"{", b"[]", b'{"a": 1}')] == [
        4,
        None,
        None,
        None,
    ]


def test_a_control_message_that_nobody_knows_is_a_defect() -> None:
    with pytest.raises(UmiakError, match="unknown type 'dance'"):
        control.decode_order({"type": "dance"})
