"""What a coordinator makes of what happens to workers: real supervisors and trainer processes, which only pretend to train."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from umiak.errors import InputError, ReplacedError, RetryError, StorageError, UmiakError
from umiak.launch.directory import LocalDirectory
from umiak.messages.control import Finish, Leaving, StartTrainer
from umiak.messages.events import Alive, Event, Restart, Round
from umiak.messages.failure import Failure
from umiak.rundir import generations
from umiak.rundir.places import Places
from umiak.wire.address import Address, listen
from umiak.wire.server import FrameServer
from umiak.worker.child import Report, TrainerChild
from umiak.worker.coordinator import Coordinator
from umiak.worker.failures import History
from umiak.worker.link import Dismissed, join
from umiak.worker.roster import Rules
from umiak.worker.supervisor import Supervisor, WorkerPlan

pytestmark = pytest.mark.slow

Stop = Callable[[], bool]
Work = Callable[[int, Report, Stop], None]


class HangingDirectory(LocalDirectory):
    """A real one on a volume that answers nothing while it `hangs`, and then all that it was asked meanwhile."""

    def __init__(self, out: Path) -> None:
        super().__init__(out)
        self.hangs = False
        self._waiting: list[tuple[Future[Any], Callable[[], Future[Any]]]] = []

    def take(self, generation: int) -> Future[None]:
        return self._answer(lambda: super(HangingDirectory, self).take(generation))

    def select(self, generation: int) -> Future[str | None]:
        return self._answer(lambda: super(HangingDirectory, self).select(generation))

    def _answer(self, ask: Callable[[], Future[Any]]) -> Future[Any]:
        if not self.hangs:
            return ask()
        self._waiting.append((Future(), ask))
        return self._waiting[-1][0]

    def heal(self) -> None:
        self.hangs = False
        for future, ask in self._waiting:
            future.set_result(ask().result())
        self._waiting = []


class Together:
    """A coordinator in this thread, each supervisor in a thread of its own, trainers as forks that do `work`."""

    def __init__(self, directory: Path, workers: int, work: Work, rules: Rules, places: Places | None = None) -> None:
        self.directory, self.work = directory, work
        self.events: list[Event] = []
        self.ends: dict[str, Finish | UmiakError] = {}
        self.run_directory = HangingDirectory(directory / "out")
        self.coordinator = Coordinator(
            "job", [True] * workers, self.run_directory, self.events.append, rules, places=places
        )
        self.address = f"unix:{directory}/coordinator"
        self.server = FrameServer([listen(Address.parse(self.address))], self.coordinator, b"token", None)
        self.coordinator.server = self.server
        self.leaving: set[str] = set()
        self.threads: list[threading.Thread] = []

    def add(self, index: int, name: str = "") -> None:
        """Start a supervisor; what it was told at the end, or what was raised, is kept under its name, which is its
        incarnation, too."""
        name = name or str(index)
        thread = threading.Thread(target=self._supervise, args=(index, name), daemon=True)
        self.threads.append(thread)
        thread.start()

    def _supervise(self, index: int, name: str) -> None:
        count = len(self.coordinator.workers)
        directory = self.directory / f"node_{index}"
        plan = WorkerPlan(
            index,
            count,
            "job",
            "token",
            self.address,
            count,
            index,
            (),
            None,
            False,
            directory,
            0,
            replacements=0,
            incarnation=name,
        )

        def start(order: StartTrainer, replaces: bool, close: list[int]) -> TrainerChild:
            return TrainerChild(lambda report, stop, _: self.work(index, report, stop), directory / "train.log", close)

        def attend(supervisor: Supervisor) -> None:
            if name in self.leaving:
                self.leaving.discard(name)
                supervisor.say(Leaving())

        try:
            self.ends[name] = Supervisor(plan, start, join(plan, None, 10)).run(attend)
        except UmiakError as error:
            self.ends[name] = error

    def until(self, condition: Callable[[], Any], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"it does not happen: {self.events[-8:]} {self.ends}"
            self.server.poll(0.05)
            self.coordinator.tick()

    def trains(self) -> bool:
        return self.coordinator.running and any(isinstance(event, Round) for event in self.events)

    def close(self) -> None:
        self.server.close()
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


Start = Callable[..., Together]


@pytest.fixture
def together(tmp_path: Path) -> Iterator[Start]:
    made: list[Together] = []

    def start(workers: int, work: Work, rules: Rules | None = None) -> Together:
        made.append(Together(tmp_path, workers, work, rules or Rules(3)))
        for index in range(workers):
            made[-1].add(index)
        return made[-1]

    yield start
    for each in made:
        each.close()


def rounds(index: int, report: Report, stop: Stop) -> None:
    """Trains until it is told to stop."""
    number = 0
    while not stop():
        number += 1
        report(Round(0, number, number, 0.0, 0.0))
        time.sleep(0.05)
    raise RetryError("stopped with a checkpoint")


def test_a_stop_waits_for_the_trainer_that_writes_the_checkpoint(together: Start, tmp_path: Path) -> None:
    def work(index: int, report: Report, stop: Stop) -> None:
        try:
            rounds(index, report, stop)
        finally:
            if index == 0:
                time.sleep(3)
                (tmp_path / "committed").touch()

    job = together(2, work)
    job.until(job.trains)
    job.coordinator.stop()
    job.until(lambda: len(job.ends) == 2)
    assert (tmp_path / "committed").exists(), "trainer 0 was killed while it wrote"
    assert job.coordinator.result == (75, "stopped with a checkpoint")


def test_one_that_leaves_is_let_go_after_the_stop_and_the_others_begin_again_with_its_successor(
    together: Start,
) -> None:
    job = together(3, rounds, Rules(0))
    job.until(job.trains)
    job.leaving.add("1")
    job.until(lambda: "1" in job.ends)
    end = job.ends["1"]
    assert isinstance(end, Finish) and end.code == 75 and "stopped with a checkpoint" in end.message
    assert job.coordinator.result is None and set(job.ends) == {"1"}
    job.events.clear()
    job.add(1, "successor")
    job.until(job.trains)
    assert job.coordinator.generation == 1 and job.coordinator.restarts == 0, "it counts as no failure"
    job.coordinator.stop()
    job.until(lambda: len(job.ends) == 4)


def test_with_worker_0_the_coordinator_leaves_and_nobody_else(together: Start) -> None:
    job = together(2, rounds)
    job.until(job.trains)
    job.leaving.add("0")
    job.until(lambda: "0" in job.ends)
    assert job.coordinator.moving and job.coordinator.result is not None
    assert "1" not in job.ends, "the other was told to end, too"
    job.add(1, "late")
    deadline = time.monotonic() + 1
    job.until(lambda: time.monotonic() > deadline)
    assert "late" not in job.ends, "one who came while the coordinator was about to go was told to end"


def test_of_two_with_one_place_the_newer_stays_and_the_older_is_told(together: Start) -> None:
    job = together(2, rounds)
    job.until(job.trains)
    job.add(1, "newer")
    job.until(lambda: "1" in job.ends)
    assert isinstance(job.ends["1"], Dismissed) and job.ends["1"].exit_code == 75
    job.events.clear()
    job.until(job.trains)
    job.coordinator.stop()
    job.until(lambda: len(job.ends) == 3)


def test_without_a_round_everybody_writes_its_stacks_and_the_job_ends(together: Start, tmp_path: Path) -> None:
    def hangs(index: int, report: Report, stop: Stop) -> None:
        report(Alive())
        time.sleep(600)

    job = together(2, hangs, Rules(3, wait_seconds=5, stall_ends=True))
    job.until(lambda: len(job.ends) == 2)
    assert job.coordinator.result is not None and job.coordinator.result[0] == 75
    assert "no round for 5 s" in job.coordinator.result[1]
    for index in range(2):
        stack = (tmp_path / f"node_{index}" / "train.log").read_text()
        assert "most recent call first" in stack and "in hangs" in stack


def test_a_failure_that_repeats_is_told_to_all_with_its_last_lines(together: Start) -> None:
    def fails(index: int, report: Report, stop: Stop) -> None:
        if index == 1:
            raise RuntimeError("column 7 is empty")
        rounds(index, report, stop)

    job = together(2, fails, Rules(10))
    job.until(lambda: len(job.ends) == 2)
    for end in job.ends.values():
        assert isinstance(end, Finish) and end.code == 1 and "it failed 3 times" in end.message
        assert end.cause is not None and end.cause.worker == 1 and "column 7 is empty" in end.cause.log
    assert job.coordinator.restarts == 2


def test_who_does_not_come_is_named(tmp_path: Path) -> None:
    job = Together(tmp_path, 3, rounds, Rules(3, wait_seconds=1))
    job.add(1)
    job.until(lambda: job.coordinator.result)
    assert job.coordinator.result == (75, "worker 0, 2 did not come within 1 s")
    job.close()


def test_one_that_was_replaced_cannot_come_back_and_its_successor_stays(together: Start) -> None:
    job = together(2, rounds)
    job.until(job.trains)
    job.add(1, "successor")
    job.until(lambda: "1" in job.ends)
    job.events.clear()
    job.until(job.trains)
    del job.ends["1"]
    job.add(1, "1")
    job.until(lambda: "1" in job.ends)
    end = job.ends["1"]
    assert isinstance(end, ReplacedError) and end.exit_code == 75
    assert not [event for event in job.events if isinstance(event, Restart)], "its successor was evicted"
    job.coordinator.stop()
    job.until(lambda: len(job.ends) == 3)


def test_a_new_coordinator_refuses_whom_the_one_before_has_replaced(tmp_path: Path) -> None:
    before = Places()
    for name in ("first", "second"):
        before.take(0, name)
    job = Together(tmp_path, 1, rounds, Rules(3), Places.of(before.to_json()))
    job.add(0, "second")
    job.until(job.trains)
    job.add(0, "first")
    job.until(lambda: "first" in job.ends)
    assert isinstance(job.ends["first"], ReplacedError)
    job.coordinator.stop()
    job.until(lambda: len(job.ends) == 2)
    job.close()


def test_one_that_connects_again_has_its_place_still(together: Start) -> None:
    """A link that broke and healed before anybody took the place."""
    job = together(2, rounds)
    job.until(job.trains)
    job.events.clear()
    job.add(1, "1")
    job.until(lambda: any(isinstance(event, Restart) for event in job.events))
    job.events.clear()
    job.until(job.trains)
    assert not job.coordinator.places.replaced
    job.coordinator.stop()
    job.until(lambda: isinstance(job.ends.get("1"), Finish) and "0" in job.ends)


def test_while_the_volume_hangs_a_restart_waits_and_nobody_is_lost(
    together: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("umiak.worker.coordinator.SILENCE_SECONDS", 4.0)
    job = together(2, rounds)
    job.until(job.trains)
    job.run_directory.hangs = True
    job.add(1, "successor")
    hung = time.monotonic()
    job.until(lambda: time.monotonic() - hung > 5)
    assert job.coordinator.result is None and not job.coordinator.running
    assert job.coordinator.restarts == 1, "the silence of a volume was taken for that of a worker"
    job.events.clear()
    job.run_directory.heal()
    job.until(job.trains)
    assert job.coordinator.generation == 1
    job.coordinator.stop()
    job.until(lambda: len(job.ends) == 3)


@pytest.mark.parametrize("error", [InputError("all checkpoints are damaged"), StorageError("cannot read a manifest")])
def test_a_job_whose_checkpoint_cannot_be_chosen_ends_with_the_reason(
    tmp_path: Path, error: UmiakError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def select(out: Path) -> None:
        raise error

    monkeypatch.setattr("umiak.launch.directory.checkpoint.select", select)
    job = Together(tmp_path, 1, rounds, Rules(3))
    job.add(0)
    job.until(lambda: "0" in job.ends)
    assert job.coordinator.result is not None and job.coordinator.result[0] == error.exit_code
    assert job.coordinator.result[1].startswith(str(error))
    job.close()


def test_a_coordinator_whose_directory_was_taken_tells_nobody_to_end(together: Start) -> None:
    job = together(2, rounds)
    job.until(job.trains)
    generations.seize(job.run_directory.out, "the next coordinator")
    job.add(1, "successor")
    with pytest.raises(ReplacedError, match="taken"):
        job.until(lambda: False)
    assert job.coordinator.result is None and "0" not in job.ends
    job.coordinator.finish(75, "the test is over")
    job.until(lambda: len(job.ends) == 3)


def failure(round_id: int, code: int = -9, role: str = "supervisor", worker: int = 1) -> Failure:
    return Failure(worker, role, code, "lost", round_id)


def test_a_checkpoint_past_the_failed_round_makes_restarts_count_anew() -> None:
    history = History(max_restarts=2)
    for round_id in range(10, 1000, 10):
        assert history.add(failure(round_id)) is None, "the limit was reached in spite of progress"
        assert history.add(failure(round_id + 1)) is None
        history.committed(round_id)
        assert history.restarts == 2, "that is no progress: it has failed later than that"
        history.committed(round_id + 2)
    assert history.add(failure(1000)) is None
    assert history.add(failure(1001)) is None
    assert history.add(failure(1002)) == (1, "supervisor of worker 1: lost; gave up after 2 restarts")


def test_connections_lost_before_training_began_are_not_the_same_round() -> None:
    history = History(max_restarts=5)
    assert [history.add(failure(-1)) for _ in range(5)] == [None] * 5
    at_a_round = History(max_restarts=5)
    ends = [at_a_round.add(failure(7, role="trainer")) for _ in range(3)]
    assert ends[:2] == [None, None] and ends[2] == (1, "trainer of worker 1: lost; it failed 3 times at the same round")
    every = History(max_restarts=5)
    ends = [every.add(failure(7, role="trainer", worker=worker)) for worker in (0, 1, 1, 0, 1)]
    assert ends[:4] == [None] * 4 and ends[4] is not None, "whose failure is heard first is chance"
    in_turn = History(max_restarts=5)
    ends = [in_turn.add(failure(7, worker=worker)) for worker in (2, 1, 2, 1, 2)]
    assert ends == [None] * 5, "pods that are lost in turn do not fail by themselves"
    own = History(max_restarts=5)
    assert [own.add(failure(-1, 1, "trainer")) for _ in range(3)][2] is not None, "its own error comes every time"
