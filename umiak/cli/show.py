"""`umiak show CONFIG`: a model as tables and as a picture, with what each service of a job would hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.cli.arguments import own, required
from umiak.files import disk_error
from umiak.spec.flags import Own
from umiak.spec.settings import FLAGS, Flag, Settings

if TYPE_CHECKING:
    from umiak.spec.outline import Outline

ABOUT = """Reads native and v1 configs; trains nothing and needs no data beyond what the config itself opens.
--workers, --servers and the ports say which job's services are meant; --output names the picture."""


@dataclass(frozen=True)
class Arguments:
    config: Path | None = None
    config_args: dict[str, str] = field(default_factory=dict)
    paddle_version: str = ""
    workers: int = 3
    servers: int | None = None
    local: bool = False
    ports_num: int = 1
    ports_num_for_sparse: int = 0
    output: Path | None = None


_SHARED = (
    "config",
    "config_args",
    "paddle_version",
    "workers",
    "servers",
    "local",
    "ports_num",
    "ports_num_for_sparse",
)
ARGUMENTS = Own(
    Arguments,
    {**{name: FLAGS[name]._replace(verbs=()) for name in _SHARED}, "output": Flag("the picture to write")},
    positional="config",
    metavar="CONFIG",
)


def run(argv: list[str]) -> int:
    read = own("show", argv, ARGUMENTS, ABOUT)
    config = required(read.config, "show", "a CONFIG")
    outline = _outline(config, read)

    from umiak.show.picture import draw
    from umiak.show.tables import tables

    tables(outline)
    png = read.output or Path(f"{config.stem}.png")
    try:
        png.parent.mkdir(parents=True, exist_ok=True)
        draw(outline, png)
    except OSError as error:
        raise disk_error(error, png) from error
    print(png)
    return 0


def _outline(config: Path, read: Arguments) -> Outline:
    from umiak.paddle_v1.dialect import is_v1
    from umiak.paddle_v1.formats import outline as layers
    from umiak.paddle_v1.language import reading
    from umiak.show import modules
    from umiak.spec.load import load
    from umiak.spec.outline import Outline
    from umiak.trainer.forward import build, choose_device

    notes: tuple[str, ...] = ()
    v1 = config.is_file() and is_v1(config)
    if v1:
        from umiak.paddle_v1.network.model import V1Model
        from umiak.paddle_v1.rules import selection

        graph = reading.load(config, read.config_args, read.paddle_version or "0.10", check_data=False)
        graph, ignored = selection.adapted(graph, read.local)
        model, parts, notes = V1Model(graph), layers.parts(graph), (*graph.warnings, *ignored)
    else:
        model = build(load(config, read.config_args).config, choose_device(use_gpu=False))
        parts = modules.parts(model)
    variables = modules.variables(model)
    held = () if read.local else modules.held(variables, _job(read))
    return Outline(config.name, parts, variables, held, notes, flows=v1)


def _job(read: Arguments) -> Settings:
    """The job whose services are meant."""
    return Settings(
        workers=read.workers,
        servers=read.servers,
        ports_num=read.ports_num,
        ports_num_for_sparse=read.ports_num_for_sparse,
    )
