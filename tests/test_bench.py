"""umiak bench: real runs of a second, and figures computed from runs that the tests make up."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.processes import descendants, wait_until_gone
from umiak.bench import driver, noise, report, scale, workloads
from umiak.bench.driver import Measured
from umiak.bench.meter import Meter, Reading
from umiak.bench.report import Figure
from umiak.bench.systems import GROUPS, place, systems
from umiak.bench.turns import Failed, Stage
from umiak.cli.main import main as cli
from umiak.data.columns import Ragged


def runs(*rates: float, others: float = 0.0) -> list[dict[str, float]]:
    return [{"samples_per_s": rate, "others": others} for rate in rates]


def figure_of(measured: Measured, system: str) -> Figure:
    return next(figure for figure in report.figures(measured) if figure.system == system)


def test_ratios_compare_runs_of_one_round_not_medians_of_all() -> None:
    """The machine was half as fast in the second round: umiak had 0.9 of the limit in each of them."""
    measured = Measured("ctr", {"limit": runs(100, 50, 100), "umiak": runs(90, 45, 90)})
    assert figure_of(measured, "umiak").of_limit == pytest.approx(0.9)
    measured.runs["umiak"] = runs(90, 45, 60)
    assert figure_of(measured, "umiak").of_limit == pytest.approx(0.9)
    assert figure_of(measured, "umiak").samples_per_s == 60


def test_paddle_is_compared_at_its_faster_setting_and_at_its_best() -> None:
    rates = {"paddle": runs(10), "paddle-as-shipped": runs(20), "paddle-async": runs(40), "umiak": runs(80)}
    figure = figure_of(Measured("ctr", rates), "umiak")
    assert (figure.of_paddle, figure.of_paddle_best, figure.of_limit) == (4.0, 2.0, None)


def test_json_has_the_fields_that_others_read() -> None:
    measured = Measured("ctr", {"limit": runs(100), "umiak": runs(80)})
    value = figure_of(measured, "umiak").to_json()
    assert value.items() >= {"workload": "ctr", "system": "umiak", "samples_per_s": 80, "of_limit": 0.8}.items()
    assert value["of_paddle"] is None


def test_a_noisy_machine_is_told() -> None:
    quiet, loud = (Measured(name, {"limit": runs(1, others=o)}) for name, o in (("ctr", 0.01), ("table", 0.5)))
    assert "measure again" not in report.table(report.figures(quiet))
    assert "during table: measure again" in report.table([*report.figures(quiet), *report.figures(loud)])


def test_every_workload_has_a_limit_and_all_its_systems_exist() -> None:
    for workload in (*GROUPS["all"], *GROUPS["paddle_v1"]):
        names = systems(workload, paddle=True)
        assert names[0] == "limit"
        for module, function in (place(workload, name) for name in names):
            assert callable(getattr(importlib.import_module(f"umiak.bench.{module}"), function))


def test_a_wheel_measures_umiak_against_its_limit_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True, timeout=60)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert "umiak/bench/main.py" in names and not [name for name in names if name.startswith("umiak/bench/peers")]
    monkeypatch.setattr("umiak.bench.systems.importlib.util.find_spec", lambda name: None)
    assert systems("ctr", paddle=True) == ["limit", "umiak", "umiak-tls", "umiak-async"]
    monkeypatch.setattr(driver, "measure", lambda workload, *_, **__: Measured(workload, {"limit": runs(1)}))
    assert cli(["bench", "ctr", "--paddle"]) == 0
    assert "come with umiak's source tree, not with the wheel" in capsys.readouterr().err


def test_a_baseline_takes_turns_with_umiak_and_its_limit_alone() -> None:
    assert systems("ctr", paddle=True, baseline=True) == ["limit", "umiak", "baseline"]
    assert "baseline" not in systems("wire-trips", paddle=False, baseline=True)


def test_paddle_is_measured_only_when_asked_for() -> None:
    assert not any(name.startswith("paddle") for name in systems("ctr", paddle=False))


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("umiak.bench.meter.time", made)
    return made


def test_a_meter_counts_only_the_steady_state(tmp_path: Path, clock: Clock) -> None:
    meter, reading = Meter(tmp_path, 0, warm_up=2, notes=lambda: {"bytes": 5}, scale=10), Reading(tmp_path, 0)
    for _ in range(2):
        meter.tick()
    assert not reading.has_begun
    for _ in range(11):
        clock.now += 0.02
        meter.tick()
    assert reading.has_begun and reading.notes() == {"scale": 10, "bytes": 5}
    assert reading.span() == pytest.approx(0.2)
    assert reading.rounds_per_s() == pytest.approx(500)


def test_what_a_turn_counts_is_whole_rounds_of_that_turn(tmp_path: Path, clock: Clock) -> None:
    meter, reading = Meter(tmp_path, 0, warm_up=0), Reading(tmp_path, 0)
    meter.tick()
    clock.now += 0.3  # held in the middle of a round
    reading.forget()
    assert reading.span() == 0
    for _ in range(3):
        meter.tick()
        clock.now += 0.05
    assert reading.span() == pytest.approx(0.1)
    assert reading.rounds_per_s() == pytest.approx(20)


DRIVER = """
import sys, time
from pathlib import Path
from umiak.bench.turns import Stage
from umiak.bench.workloads import WORKLOADS, write
data = Path(sys.argv[1])
write(WORKLOADS["quick_start"], 1, data)
with Stage() as stage:
    actor = stage.start("quick_start", "umiak", 1, data)
    print(actor.turn(0.2)["samples_per_s"] > 0, actor.pid, flush=True)
    time.sleep(60)
"""


def wait_until_held(processes: list[int]) -> None:
    """One that waits for a core when it is told to stop has stopped only once it got one."""
    deadline = time.monotonic() + 15
    while any(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T" for pid in processes):
        assert time.monotonic() < deadline, "some were not held"
        time.sleep(0.05)


def test_a_held_system_does_not_outlive_its_driver(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", DRIVER, tmp_path], stdout=subprocess.PIPE, text=True) as driving:
        assert driving.stdout is not None
        measured, pid = driving.stdout.readline().split()
        processes = [int(pid), *descendants(int(pid))]
        assert measured == "True" and len(processes) >= 4
        wait_until_held(processes)
        driving.kill()
    wait_until_gone(processes)


@pytest.mark.slow
def test_a_system_that_ends_is_told_with_what_it_said(tmp_path: Path) -> None:
    with Stage() as stage, pytest.raises(Failed, match=r"data\.npz"):
        stage.start("quick_start", "torch", 1, tmp_path)


def test_trainers_read_different_batches_of_one_file(tmp_path: Path) -> None:
    workload = workloads.Workload("recommendation", 100, 3, workloads.movielens, sparse_gradients=False)
    workloads.write(workload, 2, tmp_path)
    first, second = (workloads.batches(workload, 2, tmp_path, trainer) for trainer in range(2))
    assert len(first) == len(second) == 3
    assert all(len(batch["user"]) == 100 and isinstance(batch["title"], Ragged) for batch in first + second)
    whole = workload.samples(600)
    assert np.array_equal(second[1]["user"], whole["user"][300:400])


def test_the_work_of_others_is_told_from_our_own() -> None:
    """Whatever else runs here, a child that computes must not count as somebody else."""
    burn = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    before = noise.tree_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert noise.tree_seconds(os.getpid()) - before > 0.2
    watch = noise.Watch()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    assert 0.0 <= watch.stop() <= 1.1


def planted(costs: scale.Costs, workers: tuple[int, ...], error: float = 0.0) -> list[scale.Point]:
    draw = np.random.default_rng(0)
    points = []
    for workload, size in (("ctr", 8e6), ("quick_start", 9e4)):
        for count in workers:
            for bytes_ in (0.0, size):
                messages = count if workload == "ctr" else 1
                seconds = costs.here(workload, count, bytes_, messages) * (1 + error * draw.uniform(-1, 1))
                points.append(scale.Point(workload, count, seconds, bytes_, messages))
    return points


COSTS = scale.Costs(
    {"ctr": 0.11, "quick_start": 1e-3}, {"ctr": 1.1, "quick_start": 1.4}, 1.5e-9, 80e-6, 200e-6, cores=2
)


def test_the_fit_finds_the_costs_behind_a_measurement() -> None:
    found = scale.fit(planted(COSTS, (1, 2, 3)), cores=2)
    assert found.compute == pytest.approx(COSTS.compute, rel=0.02)
    assert found.per_byte == pytest.approx(COSTS.per_byte, rel=0.05)
    assert found.per_message == pytest.approx(COSTS.per_message, rel=0.1)


def test_six_workers_are_predicted_from_three_in_spite_of_some_noise() -> None:
    points = planted(COSTS, scale.MEASURED, error=0.02)
    costs = scale.fit([point for point in points if point.workers in scale.FITTED], cores=2)
    checked = scale.check(points, costs)
    assert len(checked) == 2
    assert all(abs(predicted / point.seconds - 1) < scale.TOLERANCE for point, predicted in checked)


def test_a_faster_network_never_makes_a_round_slower() -> None:
    slow, fast = scale.Link(1, 100), scale.Link(100, 10)
    for workers in scale.PREDICTED:
        assert COSTS.apart("ctr", workers, 8e6, fast) < COSTS.apart("ctr", workers, 8e6, slow)
    text = scale.report(planted(COSTS, scale.MEASURED), COSTS, slow, {"ctr": 2048, "quick_start": 128})
    assert "assuming" in text
    assert "1000" in text


@pytest.mark.slow
@pytest.mark.parametrize("system", systems("quick_start", paddle=False))
def test_every_training_system_runs(system: str) -> None:
    measured = driver.measure("quick_start", [system], 1, 0.2, lambda line: None, workers=2)
    assert not measured.notes
    assert measured.runs[system][0]["samples_per_s"] > 100


@pytest.mark.slow
def test_a_whole_bench_writes_its_figures_and_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures, plot = tmp_path / "bench.json", tmp_path / "bench.png"
    words = ["bench", "wire", "--seconds=0.1", "--rounds=1", f"--json={figures}", f"--plot={plot}"]
    assert cli(words) == 0
    found = json.loads(figures.read_text())
    assert {entry["workload"] for entry in found} == {"wire-trips", "wire-bytes"}
    assert all(entry["samples_per_s"] > 0 and entry["runs"] == 1 for entry in found)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "wire-trips" in capsys.readouterr().out


@pytest.mark.slow
def test_a_member_is_served_while_strangers_knock(capsys: pytest.CaptureFixture[str]) -> None:
    """How much of its rate it keeps is for a quiet machine to say; here, that the strangers come and are no obstacle."""
    assert cli(["bench", "strangers", "--seconds=0.2", "--rounds=1"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("strangers")]
    assert [line.split()[1] for line in lines] == ["limit", "umiak"]
    assert all(re.search(r"round trips/s beside [1-9]\d+ strangers/s", line) for line in lines)


def test_an_unknown_workload_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["bench", "crt"]) == 2
    assert "write one of recommendation, ctr" in capsys.readouterr().err


def test_one_of_paddles_settings_is_enough_once_the_faster_is_known() -> None:
    measured = Measured("ctr", {"paddle": runs(10, 12), "paddle-as-shipped": runs(20), "umiak": runs(1, 1)})
    assert driver.slower_paddle(measured) is None
    measured.runs["paddle-as-shipped"] = runs(20, 9)
    assert driver.slower_paddle(measured) == "paddle"
    del measured.runs["paddle"]
    assert driver.slower_paddle(measured) is None


def test_a_round_in_which_the_whole_machine_was_slow_does_not_move_the_points_of_scale() -> None:
    moods = [1.0, 1.6, 1.0, 0.8, 1.3]
    times = {(workers, "umiak"): [workers * mood for mood in moods] for workers in scale.MEASURED}
    times[6, "umiak"][0] *= 1.5
    found = scale.steady(times)
    assert found[6, "umiak"] / found[1, "umiak"] == pytest.approx(6)


def test_a_table_that_grew_is_checkpointed_and_restored_while_it_trains(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "umiak.cli.main", "bench", "capacity", "--rows=1000000", "--seconds=2"]
    done = subprocess.run([*command, "--json=capacity.json"], cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "capacity.json").read_text())
    assert found["rows"] == 1_000_000
    assert found["checkpoint_gb"] == pytest.approx(1e-9 * 1_000_000 * (8 + 4 + 2 * 4 * 16), rel=0.01)
    assert 0.14 < found["servers_gb_alone"] <= found["servers_gb"] < 1.5
    assert 0 < found["round_seconds"] <= found["longest_round_seconds"]
    assert found["restore_gb_per_s"] > 0 and found["disk_gb_per_s"] > 0
    assert "1,000,000 rows of 16 with AdaGrad over 3 servers" in done.stdout
    assert not list((tmp_path / ".cache/bench").iterdir())
