"""How pods end: together, with the training's exit code, and with a message that says whose fault it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.pods import Pods, job
from tests.processes import TINY, snapshot_bytes, umiak
from umiak.wire import credentials

FLAGS = ("--passes=2", "--checkpoint_minutes=0", "--log_period=1")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    directory = tmp_path_factory.mktemp("undisturbed")
    (directory / "config.py").write_text(TINY.read_text())
    umiak("train", directory / "config.py", "--workers", "2", "--out", directory / "run", *FLAGS)
    return snapshot_bytes(directory / "run")


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with job(tmp_path, 2, *FLAGS, pause=0.1) as started:
        yield started


@pytest.mark.parametrize("told", [0, 1])
def test_a_pod_that_is_told_to_end_saves_first_and_the_others_go_on_with_its_successor(
    pods: Pods, undisturbed: dict[str, bytes], told: int
) -> None:
    pods.start()
    pods.until(lambda: pods.rounds() > 2)
    pods.tell(told)
    assert pods.wait(told) == [75]
    message = pods.termination(told)
    assert message["first"] and "told to stop" in message["cause"] and "with a checkpoint" in message["cause"]
    saved = sorted(path.name for path in pods.out.glob("checkpoints/*/manifest.json"))
    assert saved, "no checkpoint was written before the pod ended"
    pods.pause = 0.0
    pods.start(told)
    assert pods.wait() == [0, 0]
    assert snapshot_bytes(pods.out) == undisturbed
    assert "resuming from" in (pods.out / "node_0" / "train.log").read_text()


def test_pods_that_are_all_told_to_end_leave_a_checkpoint_from_which_the_next_go_on(
    pods: Pods, undisturbed: dict[str, bytes]
) -> None:
    pods.start()
    pods.until(lambda: pods.rounds() > 2)
    pods.tell(0, 1)
    assert pods.wait() == [75, 75]
    assert len(list(pods.out.glob("checkpoints/*/manifest.json"))) == 1
    pods.pause = 0.0
    pods.start(UMIAK_JOB_UID="made-anew")
    assert pods.wait() == [0, 0]
    assert snapshot_bytes(pods.out) == undisturbed


def test_a_pod_that_waits_ends_at_once_when_told(pods: Pods) -> None:
    pods.start(1)
    pods.until(lambda: pods.events(1, "phase"))
    pods.tell(1)
    assert pods.wait(1, seconds=20) == [75]
    assert "told to stop" in pods.termination(1)["cause"]


def test_a_pod_that_is_told_to_end_while_python_starts_ends_at_once() -> None:
    """Held back as in the image: the kernel throws away what the first process of a container has no handler for."""
    hold_back = partial(signal.pthread_sigmask, signal.SIG_BLOCK, [signal.SIGTERM])
    process = subprocess.Popen([sys.executable, "-m", "umiak.cli.main", "pod"], preexec_fn=hold_back)
    process.terminate()
    assert process.wait(timeout=30) == 75


def test_a_config_that_does_not_load_ends_all_pods_with_2_and_one_is_named_first(pods: Pods, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(f"{TINY.read_text()}\nraise RuntimeError('no such column')\n")
    with job(tmp_path / "job", 2, *FLAGS, config=broken) as failing:
        failing.start()
        assert failing.wait() == [2, 2]
        messages = [failing.termination(index) for index in range(2)]
    assert sorted(message["first"] for message in messages) == [False, True]
    first = next(message for message in messages if message["first"])
    other = next(message for message in messages if not message["first"])
    assert other["because_of"] == first["worker"]
    assert "no such column" in first["cause"] and "config.py:" in first["cause"]


def test_an_error_of_the_model_in_one_worker_is_told_by_all_with_its_last_lines(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    raises = (
        "class Raises(Model):\n    def forward(self, batch):\n        import os\n"
        "        if os.environ['JOB_COMPLETION_INDEX'] == '1':\n            raise umiak.InputError('column 7 is empty')\n"
        "        return super().forward(batch)\n"
    )
    text = f"{TINY.read_text()}\nimport dataclasses\nimport umiak.errors\numiak.InputError = umiak.errors.InputError\n{raises}"
    broken.write_text(f"{text}config = dataclasses.replace(config, model=Raises)\n")
    with job(tmp_path / "job", 2, *FLAGS, config=broken) as pods:
        pods.start()
        assert pods.wait() == [2, 2]
        blamed, other = pods.termination(1), pods.termination(0)
    assert blamed["first"] and blamed["role"] == "trainer" and "column 7 is empty" in blamed["cause"]
    assert "column 7 is empty" in blamed["log"] and blamed["code"] == 2
    assert not other["first"] and other["because_of"] == 1 and other["cause"] == blamed["cause"]


def test_without_a_coordinator_a_pod_ends_and_says_whom_it_waited_for(pods: Pods) -> None:
    pods.environment["UMIAK_WAIT_SECONDS"] = "2"
    pods.start(1)
    assert pods.wait(seconds=60) == [75]
    assert pods.termination(1)["because_of"] == 0 and "worker 0 did not come" in pods.termination(1)["cause"]


def test_pods_of_another_job_are_refused_and_this_one_goes_on(
    pods: Pods, tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    credentials.write(tmp_path / "foreign", 2)
    strangers = {
        "another job's token": {"UMIAK_TOKEN": "guessed"},
        "it has another job's token": {"UMIAK_JOB_UID": "made anew under the same name"},
        "do not trust each other": {"UMIAK_CREDENTIALS": str(tmp_path / "foreign" / "worker-1")},
    }
    pods.start(0)
    for number, changed in enumerate(strangers.values(), 10):
        log = str(tmp_path / f"termination-{number}")
        pods.start(1, **changed, UMIAK_WAIT_SECONDS="4", UMIAK_TERMINATION_LOG=log)
        pods.running[number] = pods.running.pop(1)
    for number, said in enumerate(strangers, 10):
        assert pods.wait(number) == [2]
        assert said in pods.termination(number)["cause"]
    pods.pause = 0.0
    pods.start(1)
    assert pods.wait() == [0, 0]
    assert snapshot_bytes(pods.out) == undisturbed


def test_a_pod_that_comes_when_the_job_is_done_has_nothing_to_do(pods: Pods) -> None:
    pods.pause = 0.0
    pods.start()
    assert pods.wait() == [0, 0]
    for index in (1, 0):
        pods.start(index)
        assert pods.wait(index, seconds=60) == [0]


def test_a_wrong_environment_ends_a_pod_with_2_and_its_message_names_the_variable(pods: Pods) -> None:
    pods.start(0, UMIAK_WORKERS="two")
    assert pods.wait(0, seconds=30) == [2]
    assert "UMIAK_WORKERS='two' is not a whole number" in pods.termination(0)["cause"]
