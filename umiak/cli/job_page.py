"""`umiak job page [JOB]`: the page about jobs of a Kubernetes cluster. Nothing stays there, and nothing stays here."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umiak.cli.kube import add_options, connect
from umiak.contract.volume import File
from umiak.extras import needed

if TYPE_CHECKING:
    from umiak.cli.job_cost import Bill
    from umiak.jobs.diagnosis import Problem
    from umiak.jobs.history import History
    from umiak.jobs.mirror import Job, Mirror
    from umiak.page.answers import Checkpoint, Command, Failure, Snapshot, State
    from umiak.page.cluster import ClusterJob
    from umiak.page.cost import Price

ASK_SECONDS = 2.0
PATIENCE = 5
"""At most a sixth of the time is spent asking."""
IDLE_SECONDS = 20.0
"""Nobody asks the cluster while nobody has looked at the page for so long."""
NEWEST = 20
"""Of so many jobs, the newest, what lies on their volume is brought."""


def register(verbs: Any) -> None:
    """The verb and its flags (umiak/cli/job.py)."""
    parser: argparse.ArgumentParser = verbs.add_parser("page", help="show jobs on a page in your browser, live")
    parser.add_argument(
        "name", nargs="?", metavar="JOB", help="name of a job, or a job file (default: all jobs of the namespace)"
    )
    parser.add_argument("--port", type=int, metavar="N", help="port to listen on (default: 6116, or a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument(
        "--no-history", action="store_true", help="show only what pods say; start no pod that reads the volume"
    )
    add_options(parser)
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    with needed("page", "umiak job page needs"):
        from umiak.page import serving
        from umiak.page.index import Index

    with tempfile.TemporaryDirectory(prefix="umiak-page-") as scratch:
        watcher = Watcher(options, Path(scratch))
        index = Index([Path(scratch)], jobs=watcher.job, notes=watcher.notes, titles=[watcher.place])
        page = serving.prepare(index, port=options.port)
        with watcher.watching():
            print(page.address, flush=True)
            if not options.no_browser:
                webbrowser.open(page.address)
            page.run()
    return 0


def _meant(options: argparse.Namespace) -> tuple[str | None, str | None]:
    """The job that is meant, if it is one, and the namespace that its file names."""
    given = options.name
    if given is None or not given.endswith((".yaml", ".yml")):
        return given, None

    from umiak.cli.job import _load

    spec = _load(Path(given))
    return spec.name, spec.namespace


class Watcher:
    """Asks the cluster while somebody looks, in a thread of its own; another one reads volumes."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        from umiak.cli.job_cost import Bill
        from umiak.jobs import listing
        from umiak.jobs.history import History, StoppableApi
        from umiak.jobs.mirror import Mirror

        name, written = _meant(options)
        api, self.namespace = connect(options, written)
        self.place = f"cluster {api.access.context}, namespace {self.namespace}"
        self.flags = ["-n", self.namespace] + (["--context", options.context] if options.context else [])
        self.flags += ["--kubeconfig", str(options.kubeconfig)] if options.kubeconfig else []

        def names() -> list[str]:
            return [name] if name else [line.name for line in listing.listed(api, self.namespace)]

        self.mirror: Mirror = Mirror(api, self.namespace, names, scratch)
        self.bill: Bill = Bill(api, self.namespace)
        self.prices: dict[str, Price | None] = {}
        own = StoppableApi(api.access)
        own.stop = self._stop = threading.Event()
        self.history: History = History(own, self.namespace)
        self._with_history = not options.no_history
        self._looked, self._wake = time.monotonic(), threading.Event()

    def job(self, directory: Path) -> ClusterJob | None:
        """What the cluster says of the job in a directory. Whoever asks, looks."""
        self._looked = time.monotonic()
        self._wake.set()
        found = self.mirror.jobs.get(directory.name)
        return described(found, self) if found else None

    def notes(self) -> list[str]:
        self._looked = time.monotonic()
        self._wake.set()
        return [text for text in (self.mirror.trouble, self.history.trouble) if text]

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._watch)]
        threads += [threading.Thread(target=self._read_volumes)] if self._with_history else []
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._wake.set()
            for thread in threads:
                thread.join()
            self.mirror.api.close()
            self.history.api.close()

    def _watch(self) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            self.mirror.step()
            if not self.mirror.trouble:
                self.prices = {job.name: self.bill.price(job.seen) for job in self.mirror.jobs.values() if job.seen}
            self._stop.wait(max(ASK_SECONDS, PATIENCE * (time.monotonic() - begun)))
            while time.monotonic() - self._looked > IDLE_SECONDS and not self._stop.is_set():
                self._wake.clear()
                self._wake.wait(1.0)

    def _read_volumes(self) -> None:
        """Once for every job, and once more when it has ended."""
        done: set[tuple[str, bool]] = set()
        while not self._stop.is_set():
            jobs = [job for job in list(self.mirror.jobs.values())[:NEWEST] if job.seen]
            if wanted := [job for job in jobs if (job.name, job.is_over) not in done]:
                done |= {(job.name, job.is_over) for job in wanted}
                self.history.bring(wanted)
            self._stop.wait(ASK_SECONDS)


_STATES: dict[str, State] = {
    "running": "running",
    "stopping": "running",
    "done": "done",
    "failed": "failed",
    "cancelled": "stopped",
}


def described(job: Job, watcher: Watcher) -> ClusterJob:
    from umiak.page.cluster import ClusterJob

    seen, trouble = job.seen, watcher.mirror.trouble
    if seen is None:
        return ClusterJob(job.name, watcher.place, "unknown", "the cluster has not answered yet")
    state: State = "silent" if trouble and not job.is_over else _STATES.get(seen.state, "silent")
    problems = [each for each in seen.problems if job.is_over or not each.replaced]
    first = problems[0] if problems else None
    problem = trouble or (first.what if first else None)
    if problem is None and state == "silent":
        problem = f"{seen.state}: not all of its pods run"
    files = watcher.history.files.get(job.name, [])
    return ClusterJob(
        name=job.name,
        place=watcher.place,
        state=state,
        problem=problem,
        failure=_failure(first) if first else None,
        workers=len(seen.workers),
        started=seen.started.timestamp() if seen.started else None,
        finished=seen.finished.timestamp() if seen.finished else None,
        checkpoints=_checkpoints(files),
        snapshots=_snapshots(files),
        commands=_commands(job.name, seen.state, files, watcher.flags),
        price=watcher.prices.get(job.name),
    )


def _failure(problem: Problem) -> Failure:
    return {
        "worker": problem.worker,
        "role": f"pod {problem.pod}" + (f" on node {problem.node}" if problem.node else ""),
        "cause": problem.what,
        "advice": problem.fix or None,
        "time": problem.when.timestamp() if problem.when else None,
        "log": problem.log,
    }


def _groups(files: list[File], beginning: str, depth: int) -> dict[str, list[File]]:
    """Files by the directory they lie in, of those whose name begins so."""
    found: dict[str, list[File]] = {}
    for file in files:
        parts = file.path.split("/")
        if len(parts) > depth and file.path.startswith(beginning):
            found.setdefault(parts[depth - 1], []).append(file)
    return dict(sorted(found.items()))


def _checkpoints(files: list[File]) -> list[Checkpoint]:
    """Those that are committed."""
    return [
        {
            "name": name,
            "round": int(name.split("-")[1]),
            "time": max(file.time for file in members),
            "bytes": sum(file.size for file in members),
        }
        for name, members in _groups(files, "checkpoints/round-", 2).items()
        if any(file.path.endswith("/manifest.json") for file in members) and name.split("-")[1].isdecimal()
    ]


def _snapshots(files: list[File]) -> list[Snapshot]:
    return [
        {
            "name": name,
            "pass": int(name[5:]),
            "time": max(file.time for file in members),
            "bytes": sum(file.size for file in members),
            "best": False,
        }
        for name, members in _groups(files, "pass-", 1).items()
        if name[5:].isdecimal() and any(file.path.endswith("/done") for file in members)
    ]


def _commands(name: str, state: str, files: list[File], flags: list[str]) -> list[Command]:
    given: list[tuple[str, list[str]]] = [("Status", ["umiak", "job", "status", name, *flags])]
    if state in ("cancelled", "failed"):
        given.append(("Resume, where its job file is", ["umiak", "job", "submit", "job.yaml", *flags]))
    given.append(("Pull", ["umiak", "output", "pull", name, f"{name}-output", *flags]))
    if snapshots := _snapshots(files):
        newest = f"{name}-output/{snapshots[-1]['name']}"
        given.append(("Test, once it is pulled", ["umiak", "test", newest]))
        given.append(("Export, once it is pulled", ["umiak", "export", newest, "--output", f"{name}.safetensors"]))
    return [{"title": title, "command": shlex.join(words)} for title, words in given]
