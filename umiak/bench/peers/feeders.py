"""Libraries that stream training data, feeding the trainers of umiak: mosaicml-streaming and litdata, each from its own format.

Every trainer has a directory of its own, written beforehand with a third of the rows, so that the library need not
know of the others. What they cost is what they do for a batch: decode each sample and put the samples together.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from umiak.bench.feeding import ROWS, train
from umiak.bench.run import Run
from umiak.errors import UmiakError
from umiak.spec.config import Shard

HOME = Path(".cache/bench/feeders")
PACKAGES = ("mosaicml-streaming==0.13.0", "litdata==0.2.76")
FIELDS = {"ids": "int64", "dense": "float32", "label": "int64"}


def install() -> Path:
    """A directory with the libraries and what they need; made if it is not there."""
    python, ready = HOME / "bin" / "python", HOME / "ready"
    if not ready.exists():
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(HOME)],
            [str(python), "-m", "pip", "install", "--quiet", *PACKAGES],
        ):
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                last = (done.stderr.splitlines() or ["no message"])[-1]
                raise UmiakError(f"cannot install {', '.join(PACKAGES)} into {HOME}: {last}")
        ready.touch()
    return next((HOME / "lib").glob("python*/site-packages")).absolute()


def _samples(run: Run, trainer: int) -> Iterator[dict[str, Any]]:
    with np.load(run.data / "table.npz") as file:
        columns = {name: file[name] for name in FIELDS}
    for row in range(trainer, ROWS, run.workers):
        yield {name: column[row] for name, column in columns.items()}


class _Fed:
    """Batches of a library's loader, which a subclass makes for a trainer's directory."""

    def __init__(self, run: Run) -> None:
        # Behind everything that is installed here: torch and NumPy stay those of umiak.
        sys.path.append(str(install()))
        self._directory = run.directory / type(self).__name__
        for trainer in range(run.workers):
            self.write(self._directory / str(trainer), _samples(run, trainer))

    def write(self, directory: Path, samples: Iterator[dict[str, Any]]) -> None:
        raise NotImplementedError

    def loader(self, directory: Path, size: int, seed: int) -> Any:
        raise NotImplementedError

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        loader = self.loader(self._directory / str(shard.index), size, seed or 0)
        for batch in itertools.islice(loader, start, None):
            found = {name: batch[name].numpy() for name in FIELDS}
            found["label"] = found["label"].reshape(-1)
            yield found


class _Mosaic(_Fed):
    def write(self, directory: Path, samples: Iterator[dict[str, Any]]) -> None:
        columns = {"ids": "ndarray:int64:26", "dense": "ndarray:float32:13", "label": "int"}
        with import_module("streaming").MDSWriter(out=str(directory), columns=columns) as writer:
            for sample in samples:
                writer.write({**sample, "label": int(sample["label"])})

    def loader(self, directory: Path, size: int, seed: int) -> Any:
        library = import_module("streaming")
        dataset = library.StreamingDataset(local=str(directory), shuffle=True, shuffle_seed=seed, batch_size=size)
        return library.StreamingDataLoader(dataset, batch_size=size)


class _Lit(_Fed):
    def write(self, directory: Path, samples: Iterator[dict[str, Any]]) -> None:
        directory.mkdir(parents=True)
        writer = import_module("litdata.streaming.writer").BinaryWriter(str(directory), chunk_bytes="16MB")
        for number, sample in enumerate(samples):
            writer[number] = {name: np.ascontiguousarray(value) for name, value in sample.items()}
        writer.done()
        writer.merge(1)

    def loader(self, directory: Path, size: int, seed: int) -> Any:
        library = import_module("litdata")
        dataset = library.StreamingDataset(str(directory), shuffle=True, seed=seed)
        return library.StreamingDataLoader(dataset, batch_size=size, num_workers=0)


def mosaicml(run: Run) -> None:
    train(run, _Mosaic(run))


def litdata(run: Run) -> None:
    train(run, _Lit(run))
