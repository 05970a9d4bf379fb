"""The pod contract: what one side writes the other reads, today's and an earlier version's, and the docs list all of it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from umiak.contract import environment, flags, lines, ports, reasons, volume
from umiak.contract.environment import Environment, Identity
from umiak.contract.lines import Told
from umiak.contract.termination import Termination
from umiak.errors import InputError
from umiak.messages.events import Checkpoint

DOCS = (Path(__file__).parents[1] / "docs" / "pod-contract.md").read_text()
FEWEST = Environment("movies", 2, "/volume/movies/output", "config.py")
WHOLE = Environment(
    job="movies",
    workers=12,
    out="/volume/ü and a space/output",
    entry="conf/config.py",
    arguments=("--passes=3", '--config_args=name="a, b"', "--comment=ß"),
    service="others",
    coordinator="[fd00::1]:7000",
    port=9000,
    wait_seconds=7,
    grace_seconds=30,
    home="/tmp",
    data="/volume/data",
    shards="/volume/shards",
    config="/elsewhere/config.tar.gz",
    credentials="/elsewhere/credentials",
    termination_log="/elsewhere/log",
)
NOON = datetime(2026, 11, 18, 12, 0, 0, 123000, UTC)


def _table(heading: str, first: str) -> list[list[str]]:
    """Rows of the table below a heading whose first column has this title."""
    section = re.split(r"^#+ ", DOCS, flags=re.M)
    (text,) = (part for part in section if part.startswith(heading))
    rows = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("told", [FEWEST, WHOLE], ids=["fewest", "whole"])
def test_an_environment_survives_the_way_to_the_pod(told: Environment) -> None:
    assert Environment.from_env(told.to_env()) == told


def test_what_is_left_to_its_default_is_not_written() -> None:
    assert {"UMIAK_COORDINATOR", "UMIAK_SHARDS", "HOME"}.isdisjoint(FEWEST.to_env())
    assert set(WHOLE.to_env()) == set(environment.SHARED)


@pytest.mark.parametrize("own", [Identity(0, "0f1e", "secret"), Identity(11, "a b", "ü=")])
def test_an_identity_survives_the_way_to_the_pod(own: Identity) -> None:
    assert Identity.from_env(own.to_env()) == own
    assert set(own.to_env()) == set(environment.OWN)
    assert own.token not in repr(own)


@pytest.mark.parametrize(
    ("dense", "sparse", "held"),
    [
        (1, 0, [(True, True)]),
        (2, 0, [(True, True), (True, True)]),
        (2, 1, [(True, False), (True, False), (False, True)]),
        (1, 2, [(True, False), (False, True), (False, True)]),
    ],
)
def test_dense_services_come_first_and_hold_rows_only_where_no_others_do(
    dense: int, sparse: int, held: list[tuple[bool, bool]]
) -> None:
    assert list(ports.services(dense, sparse)) == held


@pytest.mark.parametrize(
    "message",
    [
        Termination("a line", True, 0, "pod", 75, NOON, -1, ""),
        Termination("lost", False, 1, "trainer", 1, NOON, 7, "I1116 ü\nE1116", 0, reasons.OUT_OF_MEMORY),
    ],
)
def test_a_termination_message_survives_the_way_to_the_client(message: Termination) -> None:
    assert Termination.decode(message.encode().decode()) == message


@pytest.mark.parametrize(
    "text", ["", "Fatal Python error: Segmentation fault", "{", "[]", '"text"', "3", '{"code": 1}']
)
def test_what_is_no_termination_message_is_not_taken_for_one(text: str) -> None:
    assert Termination.decode(text) is None


def test_an_event_survives_the_way_to_the_client() -> None:
    line = lines.write_event(Checkpoint("c", 5), NOON)
    assert line == '@umiak {"event": "checkpoint", "path": "c", "round": 5, "time": "2026-11-18T12:00:00.123Z"}\n'
    assert lines.read_event(line) == Told(Checkpoint("c", 5), "2026-11-18T12:00:00.123Z")


def test_the_docs_list_every_variable_and_no_other_with_its_default() -> None:
    rows = {name: default for cell, _, default in _table("Environment", "variable") for name in _names(cell)}
    assert set(rows) == {*environment.SHARED, *environment.OWN}
    for name, default in {
        environment.PORT: str(ports.FIRST),
        environment.COORDINATOR: f"JOB-0.SERVICE:{ports.COORDINATOR}",
        environment.WAIT_SECONDS: str(environment.DEFAULT_WAIT_SECONDS),
        environment.GRACE_SECONDS: str(environment.DEFAULT_GRACE_SECONDS),
        environment.CONFIG: environment.DEFAULT_CONFIG,
        environment.CREDENTIALS: environment.DEFAULT_CREDENTIALS,
        environment.TERMINATION_LOG: environment.DEFAULT_TERMINATION_LOG,
    }.items():
        assert rows[name] == default


@pytest.mark.parametrize("row", _table("Environment", "variable"), ids=lambda row: row[0])
def test_what_the_docs_call_required_is_required_and_nothing_else(row: list[str]) -> None:
    (name,) = _names(row[0])
    told = {**WHOLE.to_env(), **Identity(0, "uid", "token").to_env(), name: ""}
    required = False
    try:
        Environment.from_env(told), Identity.from_env(told)
    except InputError as error:
        required = str(error).startswith(f"{name} is not set")
    assert required == (row[2] == "required")


def test_the_docs_list_the_flags_that_a_pod_sets_itself() -> None:
    (said,) = re.findall(r"`UMIAK_ARGS` may not hold what a pod decides itself: (.*?);", DOCS, flags=re.S)
    named = {flag.removeprefix("--") for flag in _names(said)}
    assert {"save_dir" if name == "out" else name for name in named} == set(flags.BY_POD)


def test_the_docs_list_the_ports_the_marks_and_the_fields_of_a_termination_message() -> None:
    assert [row[0] for row in _table("Ports", "port")] == [str(ports.COORDINATOR), f"{ports.FIRST} …"]
    marks = {re.findall(r"`([^`]+)`", row[0])[0] for row in _table("What a pod says", "mark")}
    assert marks == {lines.EVENT_MARK, lines.SERVER_MARK}
    fields = {name for row in _table("What a pod says", "field") for name in _names(row[0])}
    assert fields == set(Termination("-", False, because_of=0, reason="-").to_json())


# What pods of umiak 0.1.0 wrote, and what its client needs: neither knows of reasons.
OLD_MESSAGE = (
    '{"cause": "trainer of worker 1: killed because it needed more memory than the container may use: give each worker more; '
    'gave up after 10 restarts", "first": false, "worker": 0, "role": "trainer", "code": 1, "time": "2026-11-16T09:41:07.532Z", '
    '"round": 41, "log": "I1116 09:41:07.1 4711 job.py:1] Pass=0", "because_of": 1}\n'
)
OLD_KEYS = ["cause", "first", "worker", "role", "code", "time", "round", "log"]
RECORDED = Path(__file__).parent / "recorded"
"""Standard output of worker 0's pod of a job of umiak 0.1.0 that restarted once; termination message of one that failed."""


def test_a_message_of_an_old_image_is_understood_with_its_reason() -> None:
    read = Termination.decode(OLD_MESSAGE)
    assert read is not None and (read.because_of, read.round, read.code) == (1, 41, 1)
    assert read.reason == reasons.OUT_OF_MEMORY
    assert read.encode().decode() == OLD_MESSAGE[:-2] + ', "reason": "OutOfMemory"}\n', "and only that was added"


def test_an_old_client_finds_all_it_knows_in_a_message_of_today() -> None:
    own = Termination("no data", True, 2, "pod", 2, NOON, -1, "")
    assert list(own.to_json()) == OLD_KEYS
    other = Termination("no data", False, 0, "pod", 2, NOON, -1, "", 2, "StorageError")
    assert list(other.to_json()) == [*OLD_KEYS, "because_of", "reason"]
    assert json.loads(other.encode())["time"] == "2026-11-18T12:00:00.123Z"
    assert "needed more memory than" in reasons.OUT_OF_MEMORY_TEXT, "by which it advises to raise memory"


def test_a_client_and_a_volume_pod_of_other_versions_understand_each_other() -> None:
    wanted = [volume.Wanted("pass-00000/w", 10, 5000)]
    assert volume.request() == '{"list": true}' and volume.read_request('{"list": true}') is None
    send = '{"send": [{"path": "pass-00000/w", "offset": 10, "size": 5000}]}'
    assert volume.request(wanted) == send and volume.read_request(send) == wanted
    listed = '[{"path": "pass-00000/w", "size": 5000, "time": 1.5}]'
    files = [volume.File("pass-00000/w", 5000, 1.5)]
    assert volume.write_list(files) == listed and volume.read_list(listed.encode()) == files
    assert volume.command("/volume/x")[:3] == ["python", "-m", "umiak.pod.files"]


def test_an_old_image_s_events_are_understood_and_a_new_one_writes_the_same_lines() -> None:
    kinds = []
    for line in (RECORDED / "pod-0.1.0.log").read_text().splitlines(keepends=True):
        told = lines.read_event(line)
        assert (told is not None) == line.startswith("@umiak ")
        if told is not None:
            kinds.append(told.written["event"])
            assert lines.write_event(told.event, datetime.fromisoformat(told.time)) == line
    assert set(kinds) == {"phase", "start", "round", "restart", "pass", "snapshot", "checkpoint", "done"}


def test_a_recorded_message_of_an_old_image_is_read_and_written_without_a_change() -> None:
    recorded = (RECORDED / "termination-0.1.0.json").read_text()
    read = Termination.decode(recorded)
    assert read is not None and (read.first, read.because_of, read.role, read.reason) == (False, 1, "pserver", "")
    assert read.encode().decode() == recorded
