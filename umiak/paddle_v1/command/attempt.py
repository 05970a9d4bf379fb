"""How far one v1 config gets here: it is refused, builds, or trains a few batches. Run as a process of its own, since a
config is a program: it may end the process, print, or run for ever.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from umiak.errors import InputError
from umiak.paddle_v1 import config
from umiak.paddle_v1.graph import Graph
from umiak.paddle_v1.language import reading
from umiak.paddle_v1.registration import register
from umiak.paddle_v1.rules import selection
from umiak.spec.settings import Settings

TRAINS, BUILDS, REFUSED, WANTS_FILES = "trains", "builds", "refused", "wants files"


@dataclass(frozen=True)
class Finding:
    result: str
    why: str


def attempt(path: Path, version: str, batches: int) -> Finding:
    """Read the config at `path` and, if its data are there, train with it. Its own paths begin at the working directory."""
    settings = replace(Settings(), config=path, paddle_version=version, local=True, num_passes=1, save_dir=Path("none"))
    try:
        graph = _built(path, settings)
    except InputError as error:
        return Finding(WANTS_FILES if _is_missing(error) else REFUSED, str(error))
    source = graph.data.train if graph.data else None
    if source is None:
        return Finding(BUILDS, "it names no training data")
    if isinstance(source.list, str) and not Path(source.list).is_file():
        return Finding(BUILDS, f"there is no {source.list}")
    try:
        costs = _trained(path, settings, batches)
    except InputError as error:
        return Finding(BUILDS if _is_missing(error) else REFUSED, str(error))
    return Finding(TRAINS, f"cost of batch 1: {costs[0]:g}, of batch {len(costs)}: {costs[-1]:g}")


def _built(path: Path, settings: Settings) -> Graph:
    from umiak.paddle_v1.network.evaluators import metrics
    from umiak.paddle_v1.network.model import V1Model

    graph = reading.load(path, config.injected(settings), settings.paddle_version, check_data=False)
    graph, _ = selection.adapted(graph, local=True)
    selection.optimizers(graph)
    selection.average(graph)
    metrics(graph)
    V1Model(graph)
    return graph


def _trained(path: Path, settings: Settings, batches: int) -> list[float]:
    from umiak.trainer.run import opened
    from umiak.trainer.task import Assignment

    loaded = config.load(path, {}, settings)
    costs = []
    with opened(loaded, settings, Assignment(), lambda event: None, lambda: False) as job:
        for batch in islice(job.batches(), batches):
            output, loss = job.run(batch)
            loss.backward()
            costs.append(job.step(loss.detach(), output))
    if not costs:
        raise InputError(f"{path}: its training data are empty")
    return costs


def _is_missing(error: BaseException) -> bool:
    """Whether a file that is not there is at the bottom of it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FileNotFoundError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def main(argv: list[str]) -> None:
    path, version, batches, result = argv
    register()
    Path(result).write_text(json.dumps(asdict(attempt(Path(path), version, int(batches)))))


if __name__ == "__main__":
    main(sys.argv[1:])
