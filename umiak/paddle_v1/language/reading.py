"""Reads a v1 config: runs the file with the helpers of its time and gives the graph it describes. Trains nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from umiak.errors import InputError
from umiak.paddle_v1.graph import Graph
from umiak.paddle_v1.language.building import Builder, building
from umiak.paddle_v1.language.declarations import get_config_arg
from umiak.paddle_v1.language.modules import Modules

VERSIONS = ("0.9", "0.10")


def load(path: Path, arguments: Mapping[str, str], version: str = "0.10", check_data: bool = True) -> Graph:
    """The graph of a config. `check_data` wants the lists it names to exist, seen from the working directory."""
    if version not in VERSIONS:
        raise InputError(f"--paddle_version={version} is unknown; write one of {', '.join(VERSIONS)}")
    path = path.resolve()
    modules = Modules((path.parent, Path.cwd()), {"get_config_arg": get_config_arg})
    builder = Builder(modules, version, dict(arguments))
    with building(builder):
        modules.run(path)
    if builder.settings is None:
        raise InputError(f"{path} never calls settings(batch_size=…)")
    if not builder.outputs:
        raise InputError(f"{path} never calls outputs(…) with its last layer")
    graph = Graph(
        layers=builder.layers,
        parameters=builder.settled_parameters(),
        inputs=builder.inputs,
        outputs=builder.outputs,
        settings=builder.settings,
        evaluators=tuple(builder.evaluators),
        data=builder.data,
        warnings=tuple(builder.warnings),
        path=str(path),
        files=tuple(map(str, modules.files)),
        version=version,
    )
    if check_data:
        _check_lists(graph)
    return graph


def _check_lists(graph: Graph) -> None:
    if graph.data is None:
        raise InputError(f"{graph.path} names no data; call define_py_data_sources2(…)")
    for what, source in (("train", graph.data.train), ("test", graph.data.test)):
        if source is not None and isinstance(source.list, str) and not Path(source.list).is_file():
            raise InputError(
                f"{graph.path}:{source.line}: there is no {what} list {source.list!r} in {Path.cwd()}; "
                "start umiak in the directory the config's paths begin at"
            )
