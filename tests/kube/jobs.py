"""A training job of a test: job.yaml and config in a directory, and `umiak job …` run as a user runs it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kube.images import RUNTIME
from tests.kube.namespace import Namespace
from tests.processes import TINY, snapshot_bytes, umiak

WORKERS = 2
"""Every worker of a job costs a test some seconds of CPU for importing torch."""
PASSES = 3


@dataclass(frozen=True)
class TrainingJob:
    namespace: Namespace
    directory: Path
    name: str

    @staticmethod
    def write(
        namespace: Namespace,
        directory: Path,
        name: str = "tiny",
        config: Path = TINY,
        pause: float = 0.0,
        **fields: Any,
    ) -> TrainingJob:
        """With `pause`, every batch takes that many seconds, so that a test can interfere in the middle."""
        directory = directory / name
        (directory / "config").mkdir(parents=True)
        shutil.copy(config, directory / "config" / "config.py")
        worker = {"name": "worker", "env": [{"name": "UMIAK_TEST_PAUSE", "value": str(pause)}]}
        spec = {
            "name": name,
            "image": RUNTIME,
            "config": "config",
            "workers": WORKERS,
            "passes": PASSES,
            "flags": ["--log_period=1"],
            "cpu": "200m",
            "memory": "1Gi",
            "pod": {"containers": [worker]},
            **fields,
        }
        (directory / "job.yaml").write_text(json.dumps(spec, indent=1))
        return TrainingJob(namespace, directory, name)

    def run(self, verb: str, *words: str, code: int = 0, timeout: float = 120) -> str:
        """`umiak job VERB job.yaml WORDS`: its output, or its errors where a failure is expected."""
        where = [f"--kubeconfig={self.namespace.cluster.kubeconfig}", "-n", self.namespace.name]
        return umiak("job", verb, self.directory / "job.yaml", *words, *where, code=code, timeout=timeout)

    def submit(self) -> str:
        return self.run("submit")

    def wait(self, code: int = 0, timeout: float = 240) -> str:
        """Until the end; the job must end with this exit code."""
        return self.run("wait", f"--timeout={timeout:.0f}s", code=code, timeout=timeout + 30)

    def status(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.run("status", "--json"))
        return value

    @property
    def output(self) -> Path:
        return self.namespace.volume / self.name / "output"

    def assert_same(self, expected: dict[str, bytes]) -> None:
        """Every snapshot of the job has the bytes expected."""
        found = snapshot_bytes(self.output)
        assert sorted(found) == sorted(expected)
        assert [name for name in found if found[name] != expected[name]] == []

    def events(self, worker: int = 0) -> list[dict[str, Any]]:
        """What the pod of a worker has said to programs so far."""
        pods = [pod for pod in self.pods(worker) if pod["status"].get("startTime")]
        if not pods:
            return []
        lines = self.namespace.cluster.log(pods[-1]).splitlines()
        return [json.loads(line.removeprefix("@umiak ")) for line in lines if line.startswith("@umiak ")]

    def round(self) -> tuple[int, int]:
        """The newest pass and batch that were reported; (-1, -1) before the first."""
        told = [(event["pass"], event["batch"]) for event in self.events() if event["event"] == "round"]
        return max(told, default=(-1, -1))

    def pods(self, worker: int) -> list[dict[str, Any]]:
        """All pods this worker has had, the newest last."""
        mine = f"umiak.dev/job={self.name},batch.kubernetes.io/job-completion-index={worker}"
        return sorted(self.namespace.pods(mine), key=lambda pod: pod["metadata"]["creationTimestamp"])

    def pod(self, worker: int) -> dict[str, Any]:
        return self.pods(worker)[-1]

    def until(self, what: str, met: Callable[[], bool], seconds: float = 120) -> None:
        self.namespace.wait(what, met, seconds)

    def until_training(self, after: tuple[int, int] = (-1, -1), seconds: float = 180) -> None:
        self.until(f"a round after {after}", lambda: self.round() > after, seconds)

    def delete(self) -> None:
        """And nothing that `submit` made may be left."""
        self.run("delete")
        self.until("nothing left", lambda: not self.namespace.left(), 60)
