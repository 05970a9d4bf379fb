"""Shows that this tree gives the same bytes as another: python -m tests.compare BASELINE [NAME …]

BASELINE is a checkout of the version before, set up with `make setup`. Every run of runs.py is made by both, and compared:
snapshots and printed documents byte for byte, checkpoints by their content (a table's rows in the order of their ids) and their
identity, asynchronous runs (which drop no gradient here) by the samples counted in each pass. Exits with 1 if anything differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

from tests.compare.runs import ROOT, RUNS, Run

SECONDS = 600
IGNORED = ("certificates",)
"""Directories whose content is random."""


def main(baseline: Path, names: list[str]) -> int:
    failed = 0
    for run in [run for run in RUNS if not names or run.name in names]:
        with tempfile.TemporaryDirectory() as directory:
            differences = compared(run, baseline, Path(directory))
        print(f"{'differs' if differences else 'same   '}  {run.name}", flush=True)
        for each in differences:
            print(f"         {each}")
        failed += bool(differences)
    print(f"{len(RUNS) if not names else len(names)} runs, {failed} differ")
    return 1 if failed else 0


def compared(run: Run, baseline: Path, directory: Path) -> list[str]:
    """What differs between the two, in words."""
    before, after = directory / "before", directory / "after"
    for place, tree in ((before, baseline), (after, ROOT)):
        place.mkdir()
        run.prepare(place)
        for number, step in enumerate(run.steps):
            last = number == len(run.steps) - 1
            _umiak(baseline if run.resumes and not last else tree, step, place, number)
    if not run.exact:
        return _unlike("samples by pass and service", _samples(before), _samples(after))
    files = [{name for name, _ in _files(place)} for place in (before, after)]
    found = _unlike("files", *files)
    for name in sorted(files[0] & files[1]):
        if (before / name).read_bytes() != (after / name).read_bytes():
            found.append(f"{name} differs")
    return found + _checkpoints(before / "out", after / "out")


def _umiak(tree: Path, arguments: tuple[str, ...], place: Path, number: int) -> None:
    """Run a command of a tree, with what it prints in a file."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [str(tree / ".venv" / "bin" / "python"), "-m", "umiak.cli.main", *arguments]
    with (place / f"printed-{number}").open("wb") as out:
        done = subprocess.run(
            command, cwd=place, env=environment, stdout=out, stderr=subprocess.PIPE, timeout=SECONDS, check=False
        )
    if done.returncode:
        sys.exit(f"{tree}: umiak {' '.join(arguments)} exited with {done.returncode}: {done.stderr.decode()[-2000:]}")
    if arguments[0] in ("train", "certs", "cluster") and arguments[:2] != ("cluster", "render"):
        (place / f"printed-{number}").unlink()


def _files(place: Path) -> Iterator[tuple[str, Path]]:
    """What must have the same bytes: everything but logs, curves and checkpoints."""
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        name = path.relative_to(place)
        of_run = name.parts[0] == "out" and not name.parts[1].startswith("pass-")
        if not of_run and name.parts[0] not in IGNORED and "__pycache__" not in name.parts:
            yield str(name), path


def _samples(place: Path) -> list[list[int]]:
    """What every service had counted at the end of each pass."""
    counted = []
    for directory in sorted((place / "out" / "checkpoints").glob("round-*"), key=_modified):
        clocks = []
        for path in sorted(directory.glob("service-*.safetensors")):
            with safe_open(path, "numpy") as file:
                clocks.append(json.loads(file.metadata()["clock"]))
        counted.append([samples for _, samples, *_ in clocks])
    return counted


def _modified(path: Path) -> int:
    return path.stat().st_mtime_ns


def _checkpoints(before: Path, after: Path) -> list[str]:
    """Where checkpoints differ. Their names hold the generation, which is the same too."""
    names = [sorted(path.name for path in out.glob("checkpoints/round-*")) for out in (before, after)]
    found = _unlike("checkpoints", *names)
    for name in set(names[0]) & set(names[1]):
        manifests = [json.loads((out / "checkpoints" / name / "manifest.json").read_text()) for out in (before, after)]
        for key in ("format", "round", "pass_id", "samples", "identity", "machine"):
            found += _unlike(f"{name}: {key}", *(manifest[key] for manifest in manifests))
        for piece in manifests[0]["pieces"]:
            tensors = [_sorted(load_file(out / "checkpoints" / name / piece["name"])) for out in (before, after)]
            found += _unlike(f"{name}/{piece['name']}: tensors", *(set(each) for each in tensors))
            for key in set(tensors[0]) & set(tensors[1]):
                if not _same(tensors[0][key], tensors[1][key]):
                    found.append(f"{name}/{piece['name']}: {key} differs")
    return found


def _sorted(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rows of a table in the order of their ids, wherever they lay in memory."""
    for key in [key for key in tensors if key.endswith("/ids")]:
        table, order = key.removesuffix("ids"), np.argsort(tensors[key])
        for part in ("ids", "passes", "rows"):
            tensors[table + part] = tensors[table + part][order]
    for key in [key for key in tensors if key.endswith("/waiting")]:
        tensors[key] = tensors[key][:, np.argsort(tensors[key][0])]
    return tensors


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _unlike(what: str, before: object, after: object) -> list[str]:
    return [] if before == after else [f"{what}: {before} before, {after} now"]


if __name__ == "__main__":
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / ".venv" / "ready").exists():
        sys.exit("usage: python -m tests.compare BASELINE [NAME …], with a BASELINE that `make setup` has prepared")
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
