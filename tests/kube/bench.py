"""`python -m tests.kube.bench`: what a cluster costs over local processes, on one machine and in one run.

Samples per second of the same job as three pods and as three local processes, in turns, so that both see the same machine;
from `umiak job submit` to the first round; from a deleted pod to the next round; and `umiak job status`.
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.kube import cluster as clusters
from tests.kube import images
from tests.kube.jobs import TrainingJob
from tests.kube.namespace import Namespace
from tests.kube.places import CLONE
from tests.kube.record import Process
from tests.processes import umiak
from umiak.errors import UmiakError

CONFIG = CLONE / "examples" / "recommendation" / "config.py"
PASSES = 4
BATCH = "1600"
"""As in the tutorial of 2016. Smaller batches send the same bytes for less work."""
TURNS = 3
STATUS_CALLS = 5


def main() -> int:
    found = clusters.running()
    used = found or clusters.up(owner=Process.this())
    try:
        used.publish(images.RUNTIME, images.ensure())
        with tempfile.TemporaryDirectory() as scratch:
            _measure(used, Path(scratch))
    except UmiakError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        if found is None:
            clusters.down(used)
    return 0


def _measure(used: clusters.Cluster, scratch: Path) -> None:
    namespace = Namespace.create(used)
    try:
        umiak("data", "fetch", "movielens", timeout=600)
        shutil.copytree(CLONE / "data", namespace.volume / "data")
        local, pods, first_rounds = [], [], []
        for turn in range(TURNS):
            out = scratch / f"local-{turn}"
            words = ("--workers", "3", "--passes", str(PASSES), "--config_args", f"batch={BATCH}", "--out", out)
            umiak("train", CONFIG, *words, timeout=900)
            local += _rates(out)
            fields = {"passes": PASSES, "config_args": {"batch": BATCH}, "data": "data"}
            job = TrainingJob.write(namespace, scratch, f"turn-{turn}", CONFIG, cpu="500m", memory="2Gi", **fields)
            began = time.time()
            job.submit()
            job.wait(timeout=900)
            pods += _rates(job.output)
            first_rounds.append(_first(job, "round") - began)
            print(f"turn {turn}: local {local[-1]:,.0f} samples/s, pods {pods[-1]:,.0f}", flush=True)
            if turn < TURNS - 1:
                job.delete()
        calls = [_seconds_of(lambda: job.run("status")) for _ in range(STATUS_CALLS)]
        job.delete()
        recovery = _recovery(namespace, scratch)
    finally:
        namespace.remove()
    print(f"samples/s, pods over local processes  {statistics.median(pods) / statistics.median(local):6.2f}")
    print(f"submit to first round                 {statistics.median(first_rounds):6.1f} s")
    print(f"deleted pod to next round             {recovery:6.1f} s")
    print(f"umiak job status, 3 pods              {statistics.median(calls):6.2f} s")


def _rates(out: Path) -> list[float]:
    """Samples per second of every pass but the first, which warms up."""
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    passes = [event for event in events if event["event"] == "pass"]
    return [(b["samples"] - a["samples"]) / b["seconds"] for a, b in itertools.pairwise(passes)]


def _first(job: TrainingJob, kind: str, after: float = 0.0) -> float:
    """When an event of this kind was first told after a moment."""
    times = [datetime.fromisoformat(event["time"]) for event in job.events() if event["event"] == kind]
    return min((t.astimezone(UTC).timestamp() for t in times if t.timestamp() > after), default=float("inf"))


def _recovery(namespace: Namespace, scratch: Path) -> float:
    job = TrainingJob.write(namespace, scratch, "recovery", pause=0.3, passes=10)
    job.submit()
    job.until_training()
    deleted = time.time()
    namespace.kubectl("delete", "pod", job.pod(1)["metadata"]["name"], "--wait=false")
    job.until("a restart", lambda: _first(job, "restart", deleted) < float("inf"), 120)
    restarted = _first(job, "restart", deleted)
    job.until("the next round", lambda: _first(job, "round", restarted) < float("inf"), 120)
    next_round = _first(job, "round", restarted)
    job.delete()
    return next_round - deleted


def _seconds_of(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
