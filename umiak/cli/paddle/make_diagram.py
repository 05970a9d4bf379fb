"""`paddle make_diagram CONFIG DOT_FILE [ARGS]`: the layers of a config as text for Graphviz. `umiak show` draws without it."""

from __future__ import annotations

from pathlib import Path

from umiak.cli.paddle.environment import paddle_version
from umiak.errors import InputError
from umiak.files import atomic
from umiak.spec.flags import pairs

USAGE = "paddle make_diagram CONFIG_FILE DOT_FILE [config_str], where config_str is NAME=VALUE,NAME=VALUE"


def run(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print(f"usage: {USAGE}")
        return 0
    if not 2 <= len(argv) <= 3:
        raise InputError(f"write {USAGE}")
    config = Path(argv[0])
    if not config.is_file():
        raise InputError(f"there is no config {config}")
    try:
        arguments = pairs(argv[2]) if len(argv) == 3 else {}
    except ValueError:
        raise InputError(f"{argv[2]!r} is not a list of name=value: write {USAGE}") from None

    from umiak.paddle_v1.formats import diagram
    from umiak.paddle_v1.language import reading

    graph = reading.load(config, arguments, paddle_version() or "0.10", check_data=False)
    with atomic(Path(argv[1])) as file:
        file.write(diagram.dot(graph).encode())
    return 0
