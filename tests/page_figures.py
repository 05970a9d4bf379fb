"""How fast and how large the page's server is: `python -m tests.page_figures` prints every figure. Needs no built page.

It writes its runs into a temporary directory and measures a real server process over loopback, with a cache of its own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

PROGRAM = """
import sys
from pathlib import Path
from umiak.page import built
static = Path(sys.argv[1]); static.mkdir(exist_ok=True); (static / "index.html").write_text("x")
built.STATIC = static
from umiak.cli.main import main
sys.exit(main(["page", "--no-browser", "--port", "0", sys.argv[2]]))
"""


def write_run(path: Path, points: int, passes: int = 5, seed: int = 0) -> None:
    """A run as a finished training leaves it."""
    path.mkdir(parents=True)
    draw = np.random.default_rng(seed)
    costs = 1 / np.sqrt(np.arange(1, points + 1)) + draw.normal(0, 0.01, points)
    lines = [
        f'{{"event": "round", "pass": 0, "batch": {i}, "round": {i}, "cost": {cost}, "samples_per_s": {2000 + i % 97}.5, '
        f'"time": "2026-11-18T{i // 3600 % 24:02d}:{i // 60 % 60:02d}:{i % 60:02d}.000Z"}}\n'
        for i, cost in enumerate(costs.tolist())
    ]
    every = max(1, points // passes)
    for number in range(passes):
        done = {"event": "pass", "pass": number, "round": every * (number + 1), "samples": 1000, "seconds": 9.5}
        done |= {"train": {"cost": 0.5}, "test": {"cost": 0.4, "rmse": 0.9 - number / 100}}
        lines.insert(min(len(lines), (every + 1) * (number + 1)), json.dumps(done) + "\n")
    (path / "metrics.jsonl").write_text("".join(lines))
    (path / "run.json").write_text(json.dumps({"seed": seed, "workers": 3, "flags": {"seed": str(seed)}}))


class Server:
    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self._host, _, token = address.strip().removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(self._host, timeout=120)
        connection.request("GET", f"/{token}")
        self._cookie = str(connection.getresponse().getheader("set-cookie")).partition(";")[0]
        connection.close()

    def get(self, path: str) -> Any:
        connection = http.client.HTTPConnection(self._host, timeout=120)
        connection.request("GET", path, headers={"Cookie": self._cookie})
        body = connection.getresponse().read()
        connection.close()
        return json.loads(body)

    def whole_list(self) -> list[Any]:
        while (answer := self.get("/api/runs"))["indexing"] is not None:
            pass
        runs: list[Any] = answer["runs"]
        return runs

    @property
    def memory(self) -> float:
        """Now, in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1000

    @property
    def peak(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1]) / 1000

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(directory: Path, scratch: Path) -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(scratch / "static"), str(directory)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_CACHE_HOME": str(scratch / "cache")},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield Server(process, process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def measure_list(scratch: Path, count: int, points: int) -> None:
    runs = scratch / "runs"
    for number in range(count):
        write_run(runs / f"run-{number:05d}", points, seed=number)
    for title in ("first time", "again (a new server)"):
        with served(runs, scratch) as server:
            begun = time.monotonic()
            assert len(server.whole_list()) == count
            took = time.monotonic() - begun
            begun = time.monotonic()
            server.whole_list()
            print(
                f"{count} runs of {points} points, listed {title}: {took:.2f} s; once more {time.monotonic() - begun:.3f} s"
            )
            print(f"  memory {server.memory:.0f} MB, at most {server.peak:.0f} MB")
            before = server.cpu_seconds
            time.sleep(10)
            print(
                f"  processor time of 10 s in which nobody looks: {(server.cpu_seconds - before) * 10:.2f} % of a core"
            )


def measure_long(scratch: Path, points: int) -> None:
    """A long file is shown as far as it was read, and read bit by bit."""
    write_run(scratch / "long" / "run", points)
    for title in ("first time", "again (a new server)"):
        with served(scratch / "long", scratch) as server:
            begun = time.monotonic()
            (run,) = server.whole_list()
            listed = time.monotonic() - begun
            address = f"/api/runs/{run['id']}/series?name=cost&axis=round&width=1200"
            server.get(f"/api/runs/{run['id']}")
            (cost,) = server.get(address)
            print(f"a run of {points:,} points, {title}: listed after {listed:.2f} s, ", end="")
            print(f"a first curve of {cost['points']:,} after {time.monotonic() - begun:.2f} s, ", end="")
            while cost["points"] < points:
                (cost,) = server.get(address)
            print(f"all of them after {time.monotonic() - begun:.2f} s")
            for what, more in (("its curve", ""), ("zoomed", f"&from={points // 3}&to={points // 2}")):
                begun = time.monotonic()
                (cost,) = server.get(address + more)
                print(f"  {what}: {time.monotonic() - begun:.3f} s, {len(cost['x'])} points")
            print(f"  memory {server.memory:.0f} MB")


def measure_directories(scratch: Path, count: int) -> None:
    root = scratch / "many"
    for number in range(count):
        (root / f"d{number // 100:03d}" / f"e{number % 100:02d}").mkdir(parents=True)
    write_run(root / "d000" / "run", 100)
    with served(root, scratch) as server:
        begun = time.monotonic()
        assert len(server.whole_list()) == 1
        print(f"one run among {count:,} directories, found in {time.monotonic() - begun:.2f} s")


def measure_tensorboard(scratch: Path) -> None:
    """The same metrics as event files, read by TensorBoard's own reader, if it is installed."""
    try:
        from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
    except ImportError:
        print("TensorBoard is not installed here: no time of its own")
        return
    from tensorboardX import SummaryWriter

    runs = sorted((scratch / "runs").iterdir())
    for run in runs:
        with SummaryWriter(str(scratch / "board" / run.name)) as writer:
            for line in (run / "metrics.jsonl").read_text().splitlines():
                event = json.loads(line)
                if event["event"] == "round":
                    writer.add_scalar("round/cost", event["cost"], event["round"])
                    writer.add_scalar("round/samples_per_s", event["samples_per_s"], event["round"])
    begun = time.monotonic()
    board = EventMultiplexer().AddRunsFromDirectory(str(scratch / "board"))
    board.Reload()
    print(f"TensorBoard reads the same rounds of {len(runs)} runs: {time.monotonic() - begun:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--points", type=int, default=300, help="of each of them")
    parser.add_argument("--long", type=int, default=1_000_000, help="points of one long run")
    parser.add_argument("--directories", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        measure_list(Path(place), options.runs, options.points)
        measure_tensorboard(Path(place))
        measure_long(Path(place), options.long)
        measure_directories(Path(place), options.directories)
    print(f"load of this machine when done: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
