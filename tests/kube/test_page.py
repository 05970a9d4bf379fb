"""`umiak job page` on a real cluster: live from pods, whole from the volume, and nothing is left there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kube.jobs import PASSES, WORKERS, TrainingJob
from tests.kube.namespace import Namespace
from tests.page_figures import Server
from tests.processes import hear_interrupts, kill_tree, umiak
from umiak.page.index import Index

PROGRAM = """
import sys
from pathlib import Path
from umiak.page import built
static = Path(sys.argv[1]); static.mkdir(exist_ok=True); (static / "index.html").write_text("a stand-in for the built page")
built.STATIC = static
from umiak.cli.main import main
sys.exit(main(["job", "page", "--no-browser", "--port", "0", *sys.argv[2:]]))
"""


@contextmanager
def page(namespace: Namespace, scratch: Path, *words: str) -> Iterator[Server]:
    """The page's process; it ends by Ctrl-C, as a user ends it."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(scratch / "static"), *words, *where(namespace)],
        stdout=subprocess.PIPE, text=True, preexec_fn=hear_interrupts, env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield Server(process, process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        kill_tree(process.pid)
        process.wait()


def where(namespace: Namespace) -> list[str]:
    return [f"--kubeconfig={namespace.cluster.kubeconfig}", "-n", namespace.name]


def volume_pods(namespace: Namespace) -> str:
    return namespace.kubectl("get", "jobs,pods", "-l", "umiak.dev/visitor", "-o", "name").strip()


def test_a_job_is_shown_live_and_whole_and_nothing_stays_in_the_cluster(namespace: Namespace, tmp_path: Path) -> None:
    job = TrainingJob.write(namespace, tmp_path, pause=0.3)
    job.submit()
    job.until_training()
    with page(namespace, tmp_path, "tiny") as server:

        def detail() -> dict[str, Any]:
            (run,) = server.whole_list() or [None]
            found: dict[str, Any] = server.get(f"/api/runs/{run['id']}") if run else {"run": {"round": None}}
            return found

        namespace.wait("a round on the page", lambda: detail()["run"]["round"] is not None, 60)
        first = detail()["run"]
        assert first["source"] == "cluster" and first["workers"] == WORKERS and first["state"] == "running"
        namespace.wait("the next round, live", lambda: detail()["run"]["round"] > first["round"], 60)
        # run.json lies on the volume alone.
        namespace.wait("what lies on the volume", lambda: detail()["config"]["file"] is not None, 120)
        namespace.wait("the pod that reads it to go", lambda: not volume_pods(namespace), 60)
        assert {"0-train", "1-train", "0-server"} <= {log["name"] for log in detail()["logs"]}
        job.wait()
        namespace.wait("the end", lambda: detail()["run"]["state"] == "done", 60)
        # The volume is read once more when a job has ended.
        namespace.wait("its snapshots", lambda: len(detail()["snapshots"]) == PASSES, 120)
        shown = detail()
    assert len(shown["passes"]) == PASSES and not list(tmp_path.glob("umiak-page-*"))
    namespace.wait("the pod that reads the volume to go", lambda: not volume_pods(namespace), 30)

    umiak("output", "pull", "tiny", tmp_path / "pulled", *where(namespace), timeout=120)
    index = Index([tmp_path / "pulled"])
    index.refresh()
    (run,) = index.all()
    pulled = run.detail(set())
    assert pulled["run"]["state"] == "done" and pulled["passes"] == shown["passes"]
    assert pulled["config"] == shown["config"] and pulled["drawing"] == shown["drawing"] is not None
    job.delete()


def test_a_page_that_is_ended_while_its_pod_starts_leaves_nothing(namespace: Namespace, tmp_path: Path) -> None:
    job = TrainingJob.write(namespace, tmp_path, pause=0.3)
    job.submit()
    job.until_training()
    with page(namespace, tmp_path) as server:
        server.whole_list()
        namespace.wait("its pod", lambda: bool(volume_pods(namespace)), 60)
    namespace.wait("its pod to go", lambda: not volume_pods(namespace), 30)
    job.delete()
