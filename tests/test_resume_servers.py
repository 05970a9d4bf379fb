"""A run that is resumed with another number of servers: its rows and blocks are divided again, and no byte changes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.processes import TINY, start, umiak, wait_for
from umiak.rundir.tensorfile import read_tensors

JOB = ("train", TINY, "--workers", "2", "--passes", "2", "--log_period", "1")


def model(out: Path) -> dict[str, object]:
    """The last snapshot, without how its open tables are spread over files."""
    found: dict[str, object] = {}
    snapshot = out / "pass-00001"
    described = json.loads((snapshot / "model.json").read_text())
    spread = set()
    for name, table in described["tables"].items():
        if table["vocab"] is None:
            arrays = [read_tensors(snapshot / file["name"]).arrays for file in table["files"]]
            spread |= {file["name"] for file in table["files"]}
            rows = {int(i): row.tobytes() for each in arrays for i, row in zip(each["ids"], each["rows"], strict=True)}
            found[name] = rows
    files = [path for path in snapshot.iterdir() if path.name not in spread | {"model.json"}]
    return found | {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    umiak(*JOB, "--servers", "2", "--out", out)
    return model(out)


@pytest.mark.parametrize(("before", "after"), [("1", "3"), ("4", "1")])
def test_any_number_of_servers_resumes_a_run(
    undisturbed: dict[str, object], tmp_path: Path, before: str, after: str
) -> None:
    out = tmp_path / "out"
    process = start(*JOB, "--servers", before, "--out", out, pause=0.05)
    metrics = out / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and len(metrics.read_text().splitlines()) > 5, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert not (out / "pass-00001").exists()
    umiak(*JOB, "--servers", after, "--out", out, "--resume")
    resumed = model(out)
    assert resumed.keys() == undisturbed.keys()
    assert [name for name in resumed if resumed[name] != undisturbed[name]] == []


def test_in_asynchronous_mode_the_number_stays(tmp_path: Path) -> None:
    """A service counts the gradients that it did not drop; nobody knows what a different one would have dropped."""
    out = tmp_path / "out"
    job = ("train", TINY, "--workers", "2", "--mode", "async", "--out", out)
    umiak(*job, "--servers", "1", "--passes", "1")
    told = umiak(*job, "--servers", "2", "--passes", "2", "--resume", code=2)
    assert "it was written with the number of services" in told
