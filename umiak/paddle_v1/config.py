"""A v1 config as a training job: the graph's network, its update rule, and its data providers as sources."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from umiak.errors import InputError
from umiak.paddle_v1.data.input_types import DataType, InputType
from umiak.paddle_v1.data.provider import Definition, log
from umiak.paddle_v1.data.source import ProviderSource
from umiak.paddle_v1.graph import DataSource, Graph
from umiak.paddle_v1.language import reading
from umiak.paddle_v1.language.modules import Modules
from umiak.paddle_v1.rules import selection
from umiak.spec.config import Config, Shard, Source
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings

DEFAULT_VERSION = "0.10"
LAGGED_RATIO_MIN = 1.0
TRAINING = ("train", "time", "checkgrad")
"""The jobs that read training data."""
engine = logging.getLogger("umiak.paddle_v1")
"""Logs what was said by the engine, and not from Python; all of it passes through here."""


def load(path: Path, arguments: Mapping[str, str], settings: Settings) -> Loaded:
    """Run a v1 config file and its providers' hooks. What `settings.job` does not need is left unread."""
    version = settings.paddle_version or DEFAULT_VERSION
    with _recorded() as records:
        trains = settings.job in TRAINING
        graph = reading.load(path, {**injected(settings), **arguments}, version, check_data=trains)
        modules = Modules((path.parent, Path.cwd()))
        log.info("The input order is [%s]", ", ".join(graph.inputs))
        log.info("The output order is [%s]", ", ".join(graph.outputs))
        graph, notes = selection.adapted(graph, settings.local)
        if settings.job == "checkgrad":
            graph = selection.without_tables(graph)
        config = build(graph, modules, settings)
    return Loaded(
        config,
        path,
        tuple(map(Path, graph.files)),
        dict(arguments),
        version=version,
        beside=tuple(dict.fromkeys(modules.files)),
        decides=_decided(graph),
        warnings=(*graph.warnings, *notes),
        records=tuple(records),
    )


def build(graph: Graph, modules: Modules, settings: Settings) -> Config:
    """The job that a graph describes. Providers are looked for with `modules`."""
    from umiak.paddle_v1.network.evaluators import metrics

    optimizer, parameters = selection.optimizers(graph, settings.start_pass)
    train, test = (graph.data.train, graph.data.test) if graph.data else (None, None)
    return Config(
        model=partial(_network, graph),
        train=_source(graph, modules, train, is_train=True, now=settings.job in TRAINING),
        test=_source(graph, modules, test, is_train=False, now=settings.job in ("train", "test")) if test else None,
        loss=_loss,
        optimizer=optimizer,
        batch_size=graph.settings.batch_size,
        metrics=metrics(graph),
        parameters=parameters,
        predict=partial(_outputs, graph.outputs),
        tests_whole=True,
        average=selection.average(graph),
        shapes={name: graph.parameters[name].shape for name in selection.used(graph)},
    )


def injected(settings: Settings) -> dict[str, str]:
    """What the original's trainer added to --config_args."""
    numbers = {
        "trainer_id": settings.trainer_id,
        "local": settings.local,
        "with_cost": settings.with_cost,
        "use_gpu": settings.use_gpu,
        "parallel_nn": 0,
        "cudnn_version": 0,
    }
    return {name: str(int(value)) for name, value in numbers.items()}


def _decided(graph: Graph) -> dict[str, Any]:
    training = graph.settings
    if not training.is_async:
        return {}
    ratio = training.async_lagged_grad_discard_ratio
    # As in the original: a ratio that is too small to mean anything counts as not given.
    return {"mode": "async", **({"async_lagged_ratio_default": ratio} if ratio > LAGGED_RATIO_MIN else {})}


def _network(graph: Graph) -> Any:
    from umiak.paddle_v1.network.model import V1Model

    return V1Model(graph)


def _loss(output: Any, batch: Any) -> Any:
    from umiak.paddle_v1.network.model import V1Model

    return V1Model.loss(output, batch)


def _outputs(names: tuple[str, ...], output: Any) -> tuple[Any, ...]:
    return tuple(output.values[name].data for name in names)


class _Later:
    """A source that is opened when it is first read: nothing may ever ask for it."""

    def __init__(self, open_source: Callable[[], Source]) -> None:
        self._open = open_source
        self._source: Source | None = None

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        self._source = self._source or self._open()
        return self._source.batches(size, shard, seed, start)


def _source(graph: Graph, modules: Modules, data: DataSource | None, is_train: bool, now: bool) -> Source:
    if not now or data is None:
        return _Later(partial(_opened, graph, modules, data, is_train))
    source = _opened(graph, modules, data, is_train)
    source.probe()
    return source


def _opened(graph: Graph, modules: Modules, data: DataSource | None, is_train: bool) -> ProviderSource:
    """The provider with its hook run, for the files of its list."""
    if data is None:
        raise InputError(f"{graph.path} gives no train_list, so there is nothing to train on")
    name = f"{data.module}::{data.obj}"
    where = f"{graph.path}:{data.line}"
    engine.info("loading dataprovider %s", name)
    files = _listed(data.list, where)
    definition = getattr(modules.load(data.module), data.obj, None)
    if not isinstance(definition, Definition):
        what = "has no function" if definition is None else "does not decorate with @provider its"
        raise InputError(f"{where}: {data.module}.py {what} {data.obj!r}")
    if not isinstance(data.args, Mapping | None):
        raise InputError(f"{where}: args must be a dict of what init_hook gets, not {data.args!r:.60}")
    made = definition.create(files, graph.inputs, is_train, data.args or {})
    kinds = made.kinds(name)
    for layer, kind in kinds.items():
        _check_size(graph, layer, kind, name)
    return ProviderSource(name, made, kinds)


def _listed(path: str | tuple[str, ...], where: str) -> list[str]:
    """The lines of a file list, as they are: paths seen from the working directory.

    A blank line names no file. But where there is nothing else, as for a provider that reads no file, it is called with a space.
    """
    if isinstance(path, tuple):
        return list(path)
    try:
        lines = [line for line in Path(path).read_text(encoding="latin-1").splitlines() if line]
    except OSError as error:
        raise InputError(f"{where}: cannot read the list {path!r} in {Path.cwd()}: {error.strerror}") from None
    if not lines:
        raise InputError(f"{where}: the list {path!r} names no files")
    return [line for line in lines if line.strip()] or lines[:1]


def _check_size(graph: Graph, name: str, kind: InputType, provider: str) -> None:
    """A vector must be as long as its data layer; ids must fit it where they choose rows of a table."""
    size = graph.layers[name].size
    looked_up = any(
        projection.kind == "table" and projection.input == name
        for layer in graph.layers.values()
        for projection in layer.projections
    )
    wrong = kind.dim > size if kind.type == DataType.Index and looked_up else kind.dim != size
    if wrong and (looked_up or kind.type != DataType.Index):
        raise InputError(
            f"{graph.path}:{graph.layers[name].line}: data layer {name!r} has size {size}, but {provider} gives {kind} for it"
        )


class _Keeping(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextlib.contextmanager
def _recorded() -> Iterator[list[logging.LogRecord]]:
    """What v1 code logs while it is loaded; trainers, which have a log, write it there."""
    handler = _Keeping()
    before = engine.level, engine.propagate
    engine.addHandler(handler)
    engine.setLevel(logging.INFO)
    engine.propagate = False
    try:
        yield handler.records
    finally:
        engine.removeHandler(handler)
        engine.setLevel(before[0])
        engine.propagate = before[1]
