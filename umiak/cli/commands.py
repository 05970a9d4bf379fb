"""Every command with its flags, read from the parsers themselves: what shells complete."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from umiak.cli import main
from umiak.spec import flags
from umiak.spec.flags import Own
from umiak.spec.settings import Settings

SHARED = ("train", "test", "predict", "pserver", "trainer", "paddle train", "paddle pserver", "paddle merge_model")
"""The commands that read the flags they share (umiak/spec/settings.py)."""


@dataclass(frozen=True)
class Option:
    names: tuple[str, ...]
    help: str
    value: bool
    """Whether a value follows."""
    choices: tuple[str, ...] = ()
    path: bool = False


@dataclass(frozen=True)
class Command:
    """`words` are what comes after `umiak`. A command with others below it has no options of its own."""

    words: tuple[str, ...]
    help: str
    options: tuple[Option, ...] = ()
    choices: tuple[str, ...] = ()
    """What its first argument may be."""
    path: bool = False
    """Whether its arguments are files."""


def commands() -> Iterator[Command]:
    for verb, about in main.VERBS.items():
        module = importlib.import_module(f"umiak.cli.{verb}")
        if verb == "paddle":
            yield Command((verb,), about)
            for name, text in module.COMMANDS.items():
                shared = f"paddle {name}" in SHARED
                yield Command((verb, name), text, _shared(f"paddle {name}") if shared else (), path=True)
        elif verb in SHARED:
            yield Command((verb,), about, _shared(verb), path=verb != "pserver")
        elif hasattr(module, "_parser"):
            yield from _parsed((verb,), about, module._parser())
        else:
            own = module.ARGUMENTS if hasattr(module, "ARGUMENTS") else _bench()
            yield Command((verb,), about, _own(verb, own), path=verb != "bench")


def _bench() -> Own[object]:
    return importlib.import_module("umiak.bench.arguments").ARGUMENTS


def _shared(verb: str) -> tuple[Option, ...]:
    return tuple(_flag(each) for each in flags.listed(verb, Settings, None))


def _own(verb: str, own: Own[object]) -> tuple[Option, ...]:
    return tuple(_flag(each) for each in flags.listed(verb, own.cls, own))


def _flag(listed: flags.Listed) -> Option:
    return Option(listed.names, listed.help, listed.type != "bool", listed.choices, listed.type.startswith("Path"))


def _parsed(words: tuple[str, ...], about: str, parser: argparse.ArgumentParser) -> Iterator[Command]:
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        places = [action for action in parser._actions if not action.option_strings]
        first = tuple(str(choice) for action in places[:1] for choice in action.choices or ())
        yield Command(words, about, tuple(_options(parser)), first, any(_is_path(action) for action in places))
        return
    yield Command(words, about)
    for action in below:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, each in action.choices.items():
            yield from _parsed((*words, name), helps.get(name, ""), each)


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS and action.dest != "help":
            choices = tuple(str(choice) for choice in action.choices or ())
            help_text = (action.help or "") % {"default": action.default, "prog": parser.prog}
            yield Option(tuple(action.option_strings), help_text, action.nargs != 0, choices, _is_path(action))


def _is_path(action: argparse.Action) -> bool:
    return action.type is Path or (not action.option_strings and action.metavar in ("SOURCE", "JOB", "[PASS] DIR"))
