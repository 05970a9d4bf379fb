"""Parts of a pod on their own: what its environment may say, whose an output directory is, what a message may hold."""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from umiak.errors import InputError, ReplacedError, RetryError
from umiak.messages.failure import Failure
from umiak.pod import lead, report
from umiak.pod import settings as pod_settings
from umiak.pod.lead import Lead
from umiak.pod.report import PodEnd
from umiak.rundir import generations, layout, lease
from umiak.spec.settings import Settings

GIVEN = {
    "JOB_COMPLETION_INDEX": "1",
    "UMIAK_JOB": "movies",
    "UMIAK_JOB_UID": "0f1e2d3c",
    "UMIAK_TOKEN": "secret",
    "UMIAK_WORKERS": "2",
    "UMIAK_OUT": "/volume/movies/output",
    "UMIAK_ENTRY": "config.py",
    "UMIAK_ARGS": '["--passes=3", "--config_args=width=8"]',
}


def test_what_is_not_said_follows_from_the_name_of_the_job() -> None:
    read = pod_settings.read(GIVEN)
    assert read.coordinator == "movies-0.movies:7163" and read.port == 7164
    assert read.settings.num_passes == 3 and read.settings.config_args == {"width": "8"} and read.settings.workers == 2
    assert read.directory == Path("/volume/movies/output/node_1")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"UMIAK_WORKERS": "two"}, "UMIAK_WORKERS='two' is not a whole number"),
        ({"UMIAK_WORKERS": "0"}, "at least 1"),
        ({"JOB_COMPLETION_INDEX": "2"}, "is not one of UMIAK_WORKERS=2"),
        ({"JOB_COMPLETION_INDEX": ""}, "JOB_COMPLETION_INDEX is not set"),
        ({"UMIAK_TOKEN": ""}, "UMIAK_TOKEN is not set"),
        ({"UMIAK_ARGS": "--passes=2"}, "is not a JSON list"),
        ({"UMIAK_ARGS": '["--pases=2"]'}, "did you mean --passes"),
        ({"UMIAK_ARGS": '["--workers=4"]'}, "a pod sets that itself"),
        ({"UMIAK_ARGS": '["--seed=0"]'}, "--seed=0"),
        ({"UMIAK_ARGS": '["--job=test"]'}, "umiak test"),
    ],
)
def test_an_environment_that_is_wrong_names_the_variable(changed: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        pod_settings.read({**GIVEN, **changed})


def settings(tmp_path: Path) -> Settings:
    return Settings(save_dir=tmp_path / "out")


def never(seconds: float) -> None:
    raise AssertionError("it waits where it need not")


def test_every_coordinator_has_a_newer_generation_than_those_before(tmp_path: Path) -> None:
    first = lease.take(settings(tmp_path), "job", "a", never)
    for generation in range(1, 8):
        first.advance(generation)
    second = lease.take(settings(tmp_path), "job", "b", lambda seconds: None)
    assert (first.generation, second.generation) == (7, 8)


def test_the_directory_of_an_earlier_version_goes_on_counting_generations(tmp_path: Path) -> None:
    old = {"uid": "job", "owner": "x", "generation": 4, "released": True, "done": False}
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "job.json").write_text(json.dumps(old))
    assert lease.take(settings(tmp_path), "job", "a", never).generation == 5


def test_who_has_lost_an_output_directory_to_another_notices_and_writes_nothing(tmp_path: Path) -> None:
    given_up = lease.take(settings(tmp_path), "job", "a", never)
    given_up.look()
    waited: list[float] = []
    lease.take(settings(tmp_path), "job", "b", waited.append).look()
    assert waited == [lease.HANDOVER_SECONDS], "the one before gets the time to notice"
    written = (tmp_path / "out" / layout.JOB).read_bytes()
    for act in (given_up.look, given_up.write, lambda: given_up.write(done=True), lambda: given_up.advance(1)):
        with pytest.raises(ReplacedError):
            act()
    assert (tmp_path / "out" / layout.JOB).read_bytes() == written


def test_job_json_that_a_replaced_owner_wrote_late_is_corrected(tmp_path: Path) -> None:
    """It was frozen between its look and its write."""
    late = lease.take(settings(tmp_path), "job", "a", never)
    owner = lease.take(settings(tmp_path), "job", "b", lambda seconds: None)
    (tmp_path / "out" / layout.JOB).write_text(json.dumps(late.entry.to_json()))
    owner.look()
    found = lease.read(tmp_path / "out")
    assert found is not None and found == owner.entry


def test_a_coordinator_in_a_pod_that_was_replaced_does_not_take_the_directory_back(tmp_path: Path) -> None:
    """Its pod wakes up, finds its coordinator silent and starts another."""
    lease.take(settings(tmp_path), "job", "frozen", never)
    healthy = lease.take(settings(tmp_path), "job", "successor", lambda seconds: None)
    with pytest.raises(ReplacedError):
        lease.take(settings(tmp_path), "job", "frozen", never)
    healthy.look()
    assert lease.take(settings(tmp_path), "job", "successor", never).generation == 2, "its own pod may start another"


def test_the_generation_tells_who_was_replaced_before_job_json_does(tmp_path: Path) -> None:
    lease.take(settings(tmp_path), "job", "frozen", never)
    generations.seize(tmp_path / "out", "successor")
    with pytest.raises(ReplacedError, match="believed lost"):
        lease.take(settings(tmp_path), "job", "frozen", never)


def test_replaced_pods_are_known_to_the_next_coordinator(tmp_path: Path) -> None:
    first = lease.take(settings(tmp_path), "job", "a", never)
    places = copy.deepcopy(first.entry.places)
    for name in ("b", "c"):
        places.take(1, name)
    first.write(places=places)
    found = lease.take(settings(tmp_path), "job", "d", lambda seconds: None).entry.places
    assert found.holders == {0: "d", 1: "c"} and found.replaced == ["b", "a"]
    other = lease.read(tmp_path / "out")
    assert other is not None and other.places == found


@pytest.mark.parametrize("content", ["", "{", "[]", '{"uid": "job"}'])
def test_a_job_json_that_cannot_be_read_does_not_count_as_none(tmp_path: Path, content: str) -> None:
    lease.take(settings(tmp_path), "job", "a", never)
    (tmp_path / "out" / layout.JOB).write_text(content)
    before = sorted(path.name for path in (tmp_path / "out").rglob("*"))
    with pytest.raises(RetryError, match=r"job\.json was not written by a job"):
        lease.take(settings(tmp_path), "another", "b", never)
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == before


def test_another_job_is_kept_out_as_long_as_the_first_one_shows_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "STALE_SECONDS", 0.3)
    monkeypatch.setattr(lease, "LEAVE_SECONDS", 1.0)
    first = lease.take(settings(tmp_path), "first", "a", never)

    def beat(seconds: float) -> None:
        time.sleep(0.05)
        first.look()

    with pytest.raises(InputError, match=r"another job \(first\) is training into"):
        lease.take(settings(tmp_path), "second", "b", beat)
    first.write(released=True)
    assert lease.take(settings(tmp_path), "second", "b", never).generation == 1


def test_a_volume_that_hung_for_the_waiting_job_is_no_sign_that_the_other_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "STALE_SECONDS", 0.3)
    monkeypatch.setattr(lease, "LOOK_SECONDS", 0.1)
    first = lease.take(settings(tmp_path), "first", "a", never)
    reads = iter([0.0, 0.6])
    real = lease.read

    def hangs(out: Path) -> lease.Entry | None:
        time.sleep(next(reads, 0.0))
        return real(out)

    monkeypatch.setattr(lease, "read", hangs)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(0.05)
        if len(waits) == 2:
            first.write(released=True)

    lease.take(settings(tmp_path), "second", "b", wait)
    assert len(waits) == 2, "the directory was taken from an owner that could not write"


def test_what_an_earlier_job_left_without_a_checkpoint_is_not_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "out" / "pass-00000").mkdir(parents=True)
    with pytest.raises(InputError, match="already holds a run"):
        lease.take(settings(tmp_path), "job", "a", never)
    lease.take(replace(settings(tmp_path), overwrite=True), "job", "a", never)
    assert not (tmp_path / "out" / "pass-00000").exists()


def test_a_job_that_is_done_is_done_for_itself_only(tmp_path: Path) -> None:
    lease.take(settings(tmp_path), "job", "a", never).write(done=True)
    assert lease.is_done(tmp_path / "out", "job")
    assert not lease.is_done(tmp_path / "out", "another") and not lease.is_done(tmp_path, "job")


def test_a_message_never_exceeds_what_kubernetes_keeps(tmp_path: Path) -> None:
    failure = Failure(1, "trainer", 1, "failed", 3, 'a "quoted" ü line\n' * 400, time=0.0)
    message = report.termination(PodEnd(1, "ß" * 3000, failure), 1)
    report.write_termination(tmp_path / "message", message)
    text = (tmp_path / "message").read_text()
    assert len(text.encode()) <= 4096
    assert json.loads(text)["first"] and json.loads(text)["cause"].startswith("ß")


def test_who_only_failed_because_of_another_says_so() -> None:
    failure = Failure(2, "pserver", 1, "failed", 3, "its last lines", time=0.0)
    other, own = (report.termination(PodEnd(1, "lost", failure), index) for index in (0, 2))
    assert not other.first and other.because_of == 2
    assert own.first and "because_of" not in own.to_json()
    assert other.log == own.log == "its last lines"


@pytest.fixture
def coordinators(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lead]:
    """The process of a coordinator that does nothing until it is killed."""
    monkeypatch.setattr(lead, "_main", lambda *_: signal.pause())
    started = Lead(pod_settings.read(GIVEN), "a")
    yield started
    started.wait(0)


def lose(coordinators: Lead, round_id: int) -> None:
    pid = coordinators.pid
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while coordinators.pid == pid:
        assert time.monotonic() < deadline
        coordinators.watch(round_id)


@pytest.mark.slow
def test_a_coordinator_may_be_lost_again_and_again_as_long_as_the_job_gets_on(coordinators: Lead) -> None:
    for round_id in range(0, 120, 10):
        lose(coordinators, round_id)
        assert coordinators.error is None, "the limit was reached in spite of progress"
        coordinators.watch(round_id, committed=round_id + 5)


@pytest.mark.slow
def test_a_coordinator_that_is_lost_without_progress_ends_the_pod(coordinators: Lead) -> None:
    for _ in range(lead.STARTS):
        assert coordinators.error is None
        lose(coordinators, 7)
        coordinators.watch(7, committed=6)
    assert coordinators.error is not None
