"""`umiak job page`: jobs of a recorded cluster on the page, live from their pods, with what lies on their volume."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests import kube_objects as make
from tests.page_figures import Server
from tests.processes import hear_interrupts, kill_tree
from tests.recorded_kube import RecordedKube, recorded
from tests.test_output import Here
from umiak.cli import job_page
from umiak.cli.job import _parser
from umiak.cli.job_cost import Bill, write_price
from umiak.cli.main import main
from umiak.jobs import history, status, volume_pod
from umiak.kube import kubeconfig
from umiak.kube.api import Api
from umiak.kube.nodes import Node
from umiak.page.answers import Detail, Run
from umiak.page.index import Index

pytestmark = pytest.mark.slow

CONTEXT = "cluster recorded, namespace default"


def event(second: int, **values: object) -> str:
    return "@umiak " + json.dumps({**values, "time": f"2026-11-16T09:01:{second:02d}.000Z"})


def round_at(second: int, number: int) -> str:
    return event(second, event="round", round=number, cost=1 / number, samples_per_s=9.0, batch=0, **{"pass": 0})


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedKube]:
    with recorded() as kube:
        kube.namespace()
        for number in (1, 2, 3):
            kube.put(make.node(f"n{number}"))
        monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig(tmp_path / "kubeconfig")))
        yield kube


@pytest.fixture
def watcher(kube: RecordedKube, tmp_path: Path) -> Iterator[Callable[..., job_page.Watcher]]:
    made: list[job_page.Watcher] = []

    def start(*words: str) -> job_page.Watcher:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        made.append(job_page.Watcher(_parser().parse_args(["page", *words]), scratch))
        return made[-1]

    yield start
    for each in made:
        each.mirror.api.close()
        each.history.api.close()


def shown(watcher: job_page.Watcher) -> dict[str, tuple[Run, Detail]]:
    index = Index([watcher.mirror.target], jobs=watcher.job, notes=watcher.notes, titles=[watcher.place])
    index.refresh()
    return {run.job.name: (index.runs[run.id], run.detail(set())) for run in index.all() if run.job}


def running(kube: RecordedKube, name: str = "rec") -> None:
    kube.put(make.job(name))
    for worker in range(3):
        kube.put(make.running(worker, of=name))
    kube.logs[f"{name}-0-abcde"] = "\n".join(
        [
            event(0, event="start", workers=3, services=3, parameters=9, tables=0, out="/x", round=0),
            "I1116 09:01:00.000000    50 a.py:1] a line of the trainer",
            "@server I1116 09:01:00.000000    51 b.py:1] a line of the server",
            round_at(1, 10),
            round_at(3, 20),
        ]
    )
    kube.logs[f"{name}-1-abcde"] = "I1116 09:01:00.000000    50 a.py:1] worker 1 speaks"


def test_a_job_is_shown_live_from_the_logs_of_its_pods(kube: RecordedKube, watcher: Any) -> None:
    running(kube)
    seen = watcher()
    seen.mirror.step()
    run, detail = shown(seen)["rec"]
    assert (run["state"], run["round"], run["workers"], run["source"]) == ("running", 20, 3, "cluster")
    assert run["place"] == CONTEXT and run["problem"] is None
    assert {log["name"] for log in detail["logs"]} == {"0-train", "0-server", "1-train"}
    kube.logs["rec-0-abcde"] += "\n" + round_at(9, 30)
    seen.mirror.step()
    assert shown(seen)["rec"][0]["round"] == 30
    kube.logs["rec-0-abcde"] += "\n" + event(10, event="checkpoint", path="x", round=28)
    seen.mirror.step()
    risk = shown(seen)["rec"][1]["atRisk"]
    assert risk is not None and risk["rounds"] == 2
    text = (seen.mirror.target / "rec" / "events.jsonl").read_text()
    assert len(text.splitlines()) == 5 and "a line of" not in text


def test_all_jobs_of_a_namespace_are_listed_and_one_that_is_deleted_goes(kube: RecordedKube, watcher: Any) -> None:
    running(kube)
    kube.put(make.job("old", conditions=make.ended("Complete")))
    seen = watcher()
    seen.mirror.step()
    assert {name: run["state"] for name, (run, _) in shown(seen).items()} == {"rec": "running", "old": "done"}
    del kube.objects["jobs", "default", "old"]
    seen.mirror.step()
    assert set(shown(seen)) == {"rec"}


def test_a_failure_comes_with_the_cause_the_advice_and_the_last_lines_of_job_status(
    kube: RecordedKube, watcher: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kube.put(make.job(conditions=make.ended("Failed")))
    kube.put(make.failed(1, 2, message=make.report("no column 'user'", 2, log="KeyError: 'user'"), time="09:05:00"))
    kube.put(make.failed(0, 75, message=make.report("worker 1 failed", because_of=1), time="09:05:01"))
    seen = watcher("rec")
    seen.mirror.step()
    run, detail = shown(seen)["rec"]
    failure = detail["failure"]
    assert run["state"] == "failed" and run["problem"] == "no column 'user'" and failure is not None
    assert failure["worker"] == 1 and failure["log"] == "KeyError: 'user'"
    assert main(["job", "status", "rec"]) == 0
    said = capsys.readouterr().out
    assert failure["cause"] in said and f"→ {failure['advice']}" in said and failure["log"] in said


def test_a_cluster_that_cannot_be_reached_is_said_and_what_is_known_stays(kube: RecordedKube, watcher: Any) -> None:
    running(kube)
    seen = watcher()
    seen.mirror.step()
    kube.refuse["list", "jobs"] = 503
    seen.mirror.step()
    (note,) = seen.notes()
    assert note.startswith("the cluster cannot be asked: ")
    run, _ = shown(seen)["rec"]
    assert run["state"] == "silent" and run["round"] == 20 and str(run["problem"]).startswith("the cluster cannot")
    kube.refuse.clear()
    seen.mirror.step()
    assert seen.notes() == [] and shown(seen)["rec"][0]["state"] == "running"


def test_a_job_that_is_not_there_is_said(watcher: Any) -> None:
    seen = watcher("nothing")
    seen.mirror.step()
    assert seen.notes()[0].startswith("there is no job 'nothing' in namespace default")


def test_a_cluster_that_is_not_there_from_the_beginning_is_said(tmp_path: Path, watcher: Any) -> None:
    nobody = RecordedKube(url="http://127.0.0.1:1")
    seen = watcher("--kubeconfig", str(nobody.kubeconfig(tmp_path / "nobody")))
    seen.mirror.step()
    assert shown(seen) == {} and seen.notes()[0].startswith("the cluster cannot be asked: ")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    out = tmp_path / "volume" / "rec" / "output"
    for name, text in {
        "metrics.jsonl": round_at(0, 1)[7:] + "\n",
        "events.jsonl": "".join(round_at(second, second + 5)[7:] + "\n" for second in range(3)),
        "run.json": json.dumps({"workers": 3, "flags": {"seed": "4"}}),
        "node_2/train.log": "the whole log\n",
        "pass-00000/w": "x" * 100,
        "pass-00000/done": "",
        "checkpoints/round-0000000007-0000/manifest.json": "{}",
    }.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    return tmp_path / "volume"


@pytest.mark.slow
def test_history_comes_from_the_volume_and_what_pods_say_since_follows_it(
    kube: RecordedKube, watcher: Any, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(kube)
    removed: list[str] = []

    @contextmanager
    def started(api: Api, namespace: str, claim: str, image: str) -> Iterator[Here]:
        yield Here(volume)
        removed.append(claim)

    monkeypatch.setattr(volume_pod, "started", started)
    seen = watcher("rec")
    seen.mirror.step()
    seen.history.bring(list(seen.mirror.jobs.values()))
    assert seen.history.trouble == "" and removed == ["efsvol"]
    run, detail = shown(seen)["rec"]
    lines = [json.loads(line) for line in (seen.mirror.target / "rec" / "events.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [5, 6, 7, 20]
    assert run["round"] == 20 and detail["config"]["flags"] == {"seed": "4"}
    assert [each["name"] for each in detail["snapshots"]] == ["pass-00000"] and detail["snapshots"][0]["bytes"] == 100
    assert [(each["name"], each["round"]) for each in detail["checkpoints"]] == [("round-0000000007-0000", 7)]
    assert "2-train" in {log["name"] for log in detail["logs"]}
    assert not (seen.mirror.target / "rec" / "pass-00000").exists()


def test_who_may_start_no_pod_sees_jobs_live_and_reads_why(kube: RecordedKube, watcher: Any) -> None:
    running(kube)
    kube.put({"kind": "PersistentVolumeClaim", "metadata": {"name": "efsvol", "namespace": "default"}})
    kube.denied.add(("create", "jobs"))
    seen = watcher("rec")
    seen.mirror.step()
    seen.history.bring(list(seen.mirror.jobs.values()))
    (note,) = seen.notes()
    assert note.startswith("what lies on the volume cannot be read: ") and shown(seen)["rec"][0]["round"] == 20


def test_a_page_that_ends_removes_the_pod_it_waits_for(kube: RecordedKube, watcher: Any) -> None:
    """The pod never starts in a recorded cluster: the page waits for it, is ended, and leaves nothing."""
    running(kube)
    kube.put({"kind": "PersistentVolumeClaim", "metadata": {"name": "efsvol", "namespace": "default"}})
    seen = watcher("rec")

    def made() -> bool:
        return any(name.startswith("Job umiak-volume-") for name in kube.names())

    with seen.watching():
        wait_until(made)
    assert not made() and seen.mirror.jobs["rec"].seen is not None


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(1200):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("it does not happen")


PROGRAM = """
import sys
from pathlib import Path
from umiak.page import built
static = Path(sys.argv[1]); static.mkdir(); (static / "index.html").write_text("a stand-in")
built.STATIC = static
from umiak.cli.main import main
sys.exit(main(["job", "page", "--no-browser", "--port", "0"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_shows_jobs_says_when_the_cluster_is_away_and_leaves_nothing(
    kube: RecordedKube, tmp_path: Path, ending: signal.Signals
) -> None:
    running(kube)
    kube.put({"kind": "PersistentVolumeClaim", "metadata": {"name": "efsvol", "namespace": "default"}})
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "static")], stdout=subprocess.PIPE, text=True,
        preexec_fn=hear_interrupts, env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        server = Server(process, process.stdout.readline())
        wait_until(lambda: [run["round"] for run in server.whole_list()] == [20])
        answer = server.get("/api/runs")
        assert answer["roots"] == [CONTEXT] and answer["problems"] == [] and answer["runs"][0]["state"] == "running"
        kube.refuse["list", "jobs"] = 503
        wait_until(lambda: any("the cluster cannot be asked" in text for text in server.get("/api/runs")["problems"]))
        kube.refuse.clear()
        wait_until(lambda: server.get("/api/runs")["problems"] == [])
        assert list(scratch.iterdir())
        process.send_signal(ending)
        assert process.wait(60) == 0
    finally:
        kill_tree(process.pid)
        process.wait()
    assert list(scratch.iterdir()) == [] and not any("umiak-volume" in name for name in kube.names())


def test_its_commands_are_real_ones(kube: RecordedKube, watcher: Any) -> None:
    kube.put(make.job(conditions=make.ended("Failed")))
    seen = watcher("rec", "--context", "recorded")
    seen.mirror.step()
    _, detail = shown(seen)["rec"]
    commands = {each["title"]: shlex.split(each["command"])[1:] for each in detail["commands"]}
    assert set(commands) == {"Status", "Resume, where its job file is", "Pull"}
    for verb, *words in commands.values():
        parser = {"job": _parser, "output": _output_parser}[verb]()
        assert parser.parse_args(words).context == "recorded"


def _output_parser() -> argparse.ArgumentParser:
    from umiak.cli.output import _parser as parser

    return parser()


class FixedPrices:
    """Two dollars for a node, as AWS would say."""

    asked = True

    def __call__(self, node: Node) -> Decimal | None:
        return Decimal(2)


def test_a_job_costs_its_workers_share_of_their_nodes_and_a_pulled_run_knows_it(
    kube: RecordedKube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(kube)
    monkeypatch.setattr("umiak.cli.job_cost.Prices", FixedPrices)
    with Api(kubeconfig.load(None, None, {"KUBECONFIG": str(tmp_path / "kubeconfig")})) as api:
        # One of two processors of each of three nodes, at two dollars a node.
        price = Bill(api, "default").price(status.gather(api, "default", "rec"))
        assert price is not None and price.per_hour == pytest.approx(3.0) and "3 workers' share" in price.text
        write_price(api, "default", "rec", tmp_path)
    assert json.loads((tmp_path / "price.json").read_text())["dollars_per_hour"] == pytest.approx(3.0)


def test_nothing_of_a_volume_but_curves_events_and_logs_is_brought() -> None:
    def wanted(path: str, size: int = 10) -> bool:
        return history.is_wanted(history.File(path, size, 0.0))

    assert wanted("metrics.jsonl") and wanted("events.jsonl") and wanted("node_0/train.log") and wanted("run.json")
    assert not wanted("pass-00000/w") and not wanted("checkpoints/a/b") and not wanted("node_0/a/b.log")
    assert not wanted("metrics.jsonl", 1 << 40)
