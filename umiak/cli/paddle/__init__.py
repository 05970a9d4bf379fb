"""`umiak paddle COMMAND`, or `paddle COMMAND` where `umiak paddle install` has put it: the command line of PaddlePaddle v1."""

from __future__ import annotations

import importlib

from umiak.cli.main import nearest
from umiak.errors import InputError

# A command is the module of the same name in this package, imported only when it is asked for: `run(argv) -> exit code`.
COMMANDS = {
    "train": "Start a paddle_trainer",
    "merge_model": "Write a snapshot and its config as one file, for the C API",
    "pserver": "Start a parameter server",
    "dump_config": "Print what a config says, as v1's own text",
    "make_diagram": "Write a config's layers as text for Graphviz",
    "survey": "Say which configs below a directory train here",
    "version": "Print the version",
    "usage": "Say what is reported to others: nothing",
    "install": "Put this command on your path under its old name",
}


def run(argv: list[str]) -> int:
    command, rest = (argv[0], argv[1:]) if argv else ("--help", [])
    if command in ("--help", "-h", "help"):
        print(_help())
        return 0
    if command in ("--version", "-v"):
        command = "version"
    if command not in COMMANDS:
        raise InputError(
            f"paddle has no command {command!r}{nearest(command, list(COMMANDS))}; paddle --help lists all"
        )
    code: int = importlib.import_module(f"umiak.cli.paddle.{command}").run(rest)
    return code


def _help() -> str:
    commands = "\n".join(f"    {command:<17} {text}" for command, text in COMMANDS.items())
    return f"""usage: umiak paddle COMMAND …, or paddle COMMAND … once it is installed

The commands of PaddlePaddle v1:
{commands}

paddle train --help, paddle merge_model --help and paddle pserver --help list their flags."""
