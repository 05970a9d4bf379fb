"""What the page tells of real runs: one that ends well, one that fails, one that is stopped, one that trains."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.processes import TINY, kill_tree, start, umiak, wait_for
from tests.v1_graphs import data, fc, graph
from umiak import system
from umiak.nn.outline import variables
from umiak.paddle_v1.network.model import V1Model
from umiak.page import cost, drawing
from umiak.page.answers import Detail
from umiak.page.index import Index
from umiak.spec.flags import parse
from umiak.spec.outline import Outline

pytestmark = pytest.mark.slow
BROKEN = TINY.read_text().replace(
    "    def forward(self, batch):\n", '    def forward(self, batch):\n        batch["age"]\n'
)


def told(out: Path) -> Detail:
    index = Index([out])
    index.refresh()
    (run,) = index.all()
    return run.detail(system.locked_files())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "it's $(touch x)"
    umiak("train", TINY, "--workers", "2", "--passes", "2", "--seed", "7", "--out", out)
    return out


def test_a_finished_run_is_told_with_its_tables_services_and_model(finished: Path) -> None:
    detail = told(finished)
    run = detail["run"]
    assert (run["state"], run["passes"], run["workers"], run["samples"]) == ("done", 2, 2, 2000)
    last = detail["passes"][-1]
    assert last["tables"] and set(last["tables"]["item.weight"]) >= {"rows", "bytes", "waiting", "new", "expired"}
    assert last["services"] and len(last["services"]) == 2 and detail["atRisk"] is None and detail["failure"] is None
    names = {each["name"] for each in detail["series"]}
    assert {"table/item.weight/rows", "table/item.weight/waiting", "table/item.weight/expired"} <= names
    assert detail["drawing"] is not None
    drawn = "".join(ElementTree.fromstring(detail["drawing"]).itertext())
    assert "SparseEmbedding, open × 8" in drawn and "service 1.0" in drawn


def test_its_commands_are_quoted_and_work_as_they_are(finished: Path, tmp_path: Path) -> None:
    commands = {each["title"]: each["command"] for each in told(finished)["commands"]}
    assert set(commands) == {"Resume", "Test", "Export"}
    words = {title: shlex.split(command) for title, command in commands.items()}
    settings = parse("train", words["Resume"][2:])
    assert (settings.resume, settings.workers, settings.seed, settings.save_dir) == (True, 2, 7, finished)
    assert "cost" in umiak(*words["Test"][1:])
    (*export, file) = words["Export"][1:]
    umiak(*export, tmp_path / file)
    assert (tmp_path / file).stat().st_size > 1000


@pytest.mark.parametrize("kind", [["--workers", "2"], ["--local"]], ids=["workers", "local"])
def test_a_failed_run_is_told_with_the_cause_the_advice_and_the_last_lines(tmp_path: Path, kind: list[str]) -> None:
    config = tmp_path / "config.py"
    config.write_text(BROKEN)
    out = tmp_path / "out"
    process = start("train", config, *kind, "--passes", "1", "--out", out)
    assert process.wait(120) != 0
    process.communicate()
    detail = told(out)
    failure = detail["failure"]
    assert detail["run"]["state"] == "failed" and failure is not None
    assert failure["role"] == "trainer" and failure["worker"] is not None and "age" in failure["cause"]
    assert failure["advice"] and "--resume" in failure["advice"] and failure["log"].strip()
    assert detail["changes"][-1]["kind"] == "failed" and detail["run"]["problem"] == failure["cause"]


@pytest.mark.parametrize("kind", [["--workers", "2"], ["--local"]], ids=["workers", "local"])
def test_a_run_that_is_stopped_has_not_failed_and_one_that_trains_has_work_at_risk(
    tmp_path: Path, kind: list[str]
) -> None:
    out = tmp_path / "out"
    process = start("train", TINY, *kind, "--passes", "500", "--log_period", "1", "--out", out, pause=0.02)
    try:
        wait_for(
            lambda: (out / "metrics.jsonl").exists() and '"round": 9' in (out / "metrics.jsonl").read_text(), process
        )
        detail = told(out)
        assert detail["run"]["state"] == "running" and detail["atRisk"] is not None
        assert detail["atRisk"]["rounds"] > 0 and detail["atRisk"]["seconds"] > 0
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 75
    finally:
        kill_tree(process.pid)
        process.communicate()
    detail = told(out)
    assert (detail["run"]["state"], detail["run"]["problem"], detail["failure"]) == ("stopped", None, None)
    assert detail["commands"][0]["title"] == "Resume"


def test_a_price_makes_a_cost_and_one_beside_the_run_counts_too(finished: Path) -> None:
    index = Index([finished], price=cost.given(7200.0))
    index.refresh()
    (run,) = index.all()
    detail = run.detail(set())
    bill, seconds = detail["cost"], detail["run"]["seconds"]
    assert bill is not None and seconds is not None and bill["perHour"] == 7200.0
    assert bill["dollars"] == pytest.approx(2 * seconds, rel=0.01) == detail["run"]["dollars"]
    assert bill["perMillionSamples"] is not None and 0 < bill["perMillionSamples"] <= bill["dollars"] * 500
    assert bill["lostToRestarts"] == 0 and "--dollars-per-hour" in bill["text"] and "Not counted" in bill["text"]
    (finished / "price.json").write_text('{"dollars_per_hour": 3600, "text": "Two machines."}')
    beside = told(finished)["cost"]
    assert beside is not None and beside["dollars"] == pytest.approx(seconds, rel=0.01)
    assert beside["text"].startswith("Two machines.")
    (finished / "price.json").write_text('{"dollars_per_hour": "NaN"}')
    assert told(finished)["cost"] is None
    (finished / "price.json").unlink()


def test_a_network_of_v1_is_drawn_by_its_layers() -> None:
    net = V1Model(graph(data("x", 3), fc("hidden", 5, "x"), fc("out", 2, "hidden")))
    outline = Outline("net.py", net.outlined(), variables(net))
    drawn = "".join(ElementTree.fromstring(str(drawing.of_run({"outline": outline.to_json()}))).itertext())
    assert "hidden" in drawn and "one process: no services" in drawn
