"""A run directory that an earlier version wrote is still resumed, tested, exported and loaded (tests/fixtures)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import umiak
from tests.processes import umiak as command
from umiak.rundir import checkpoint, lease, snapshot

BEFORE = Path(__file__).parent / "fixtures" / "run_before_house"
COST_THEN = {1: 0.4832789570093155, 2: 0.47195146083831785}
"""On the test data after a pass, as that version measured it. The last is of a run that it resumed itself."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(BEFORE, tmp_path / "run")
    return tmp_path / "run"


def test_it_is_resumed_to_the_result_it_would_have_had(run: Path) -> None:
    command("train", run / "config.py", "--workers=2", "--passes=3", f"--out={run}/output", "--resume")
    events = [json.loads(line) for line in (run / "output" / "metrics.jsonl").read_text().splitlines()]
    assert [event["pass"] for event in events] == [0, 1, 2], "its earlier passes are kept"
    assert events[-1]["test"]["cost"] == pytest.approx(COST_THEN[2], abs=1e-4)
    assert checkpoint.select(run / "output") == run / "output/checkpoints/round-0000000030-0001"


def test_it_is_tested_exported_and_loaded(run: Path) -> None:
    assert f"{COST_THEN[1]:.3f}" in command("test", run / "output/pass-00001")
    command("export", run / "output/pass-00001", f"--output={run}/model.safetensors")
    exported = load_file(run / "model.safetensors")
    assert {"user.weight", "item.weight.ids", "item.weight.rows", "out.weight", "norm.running_mean"} <= set(exported)
    model = umiak.load(run / "output")
    weight = dict(model.named_parameters())["out.weight"].detach().numpy()
    np.testing.assert_array_equal(weight, exported["out.weight"])


def test_its_files_are_what_they_were(run: Path) -> None:
    out = run / "output"
    snapshot.Contents(snapshot.find(out)).verify()
    assert [each.round for each in checkpoint.committed(out)] == [10, 20]
    assert set(checkpoint.read(out / "checkpoints/round-0000000020-0000").identity) == {
        "the number of workers",
        "the number of services",
        "the seed",
        "the model's parameters",
        "the model's tables",
        "the optimizer",
        "batch_size",
        "the mode",
        "the config file",
    }
    assert lease.read(out) is None, "a local job has no job.json"
