"""`umiak bench data`: what is compared is the same data, and what a system has to do is done."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from umiak.bench import feeding, report
from umiak.bench.driver import Measured
from umiak.bench.run import Run
from umiak.bench.systems import FEEDERS, GROUPS, LIMITED, place, systems
from umiak.data import Columns, Shard, stream


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(feeding, "ROWS", 1200)
    monkeypatch.setattr(feeding, "GROUP", 50)
    monkeypatch.setattr(feeding, "READER_ROWS", 4000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "run").mkdir()
    return Run("data-ctr", "umiak", 0.01, 3, tmp_path, tmp_path / "run")


def test_files_hold_what_memory_holds(run: Run) -> None:
    feeding.write("data-ctr", run.data)
    with np.load(run.data / "table.npz") as file:
        table = Columns(dict(file))
    (batch,) = stream(run.data / feeding.TRAIN).batches(5000, Shard(), None)
    for name in table.names:
        assert np.array_equal(batch[name], table[name])


def test_the_reader_and_the_scan_read_every_row(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    feeding.write("data-reader", run.data)
    counted: list[int] = []
    monkeypatch.setattr(feeding, "_per_core", lambda run, once: counted.append(once()) or {})
    feeding.scan(run)
    feeding.read(run)
    assert counted == [4000, 4000]


def test_a_shard_is_opened_where_it_is_meant_to_be(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "READER_BATCH", 10)
    feeding.write("data-opening", run.data)
    for system in (feeding.one_window, feeding.in_the_middle):
        assert system(run)["samples_per_s"] > 0


def test_every_system_is_there_and_libraries_are_measured_only_on_demand() -> None:
    import importlib

    for workload in GROUPS["data"]:
        for system in systems(workload, paddle=False, feeders=True):
            module, function = place(workload, system)
            assert callable(getattr(importlib.import_module(f"umiak.bench.{module}"), function))
    assert not set(systems("data-ctr", paddle=False)) & set(FEEDERS)
    assert systems("data-memory", paddle=False) == [LIMITED]


def test_the_faster_library_is_what_umiak_is_compared_with() -> None:
    def turns(*rates: float) -> list[dict[str, float]]:
        return [{"samples_per_s": rate} for rate in rates]

    measured = Measured("data-ctr", {"umiak": turns(10, 20), "mosaicml": turns(2, 4), "litdata": turns(5, 10)})
    assert report.feeders(measured) == [
        "umiak feeds its trainers 2.00 × as fast as litdata, the faster of the libraries"
    ]
    assert report.feeders(Measured("data-ctr", {"umiak": turns(10)})) == []
