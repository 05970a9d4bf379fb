"""Writes the reference of the command line into cli.md, from what every verb prints for --help when the site is built.

`commands()` finds the verbs where the command line itself finds them, so a new one cannot be forgotten.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
from collections.abc import Iterator
from unittest import mock

from umiak.cli import main, paddle

PAGE = "cli"
MARK = "<!-- every verb: written when the site is built -->"
WIDTH = 100
PLAIN = ("VERB", "-h, --help")
HEADINGS = ("positional arguments:", "options:")
LONG = re.compile(r"(--\S+ \S+) (.+)")
"""A flag that is too long for its column, its value, and what it means."""


def commands() -> Iterator[tuple[str, ...]]:
    """Every verb, followed by the verbs below it: ("train",), ("job",), ("job", "init"), …"""
    for verb in main.VERBS:
        yield (verb,)
        if verb == "paddle":
            yield from (("paddle", command) for command in paddle.COMMANDS)
            continue
        module = importlib.import_module(f"umiak.cli.{verb}")
        if hasattr(module, "_parser"):
            yield from ((verb, *below) for below in _below(module._parser()))


def _below(parser: argparse.ArgumentParser) -> Iterator[tuple[str, ...]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield (name,)
                yield from ((name, *more) for more in _below(each))


def help_of(command: tuple[str, ...], width: int = WIDTH) -> str:
    """What `umiak COMMAND --help` prints on a terminal of so many columns."""
    printed = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": str(width)}),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        main.main([*command, "--help"])
    return printed.getvalue().strip()


def reference() -> str:
    parts = []
    for command in commands():
        heading = "#" * min(len(command) + 1, 3)
        parts += [f"{heading} umiak {' '.join(command)}", *section(command)]
    return "\n\n".join(parts) + "\n"


def section(command: tuple[str, ...]) -> Iterator[str]:
    """A verb's help as Markdown: how it is called, what it says in words, and its flags as tables."""
    if len(command) == 1:
        about = main.VERBS[command[0]]
        yield _prose(f"{about[0].upper()}{about[1:]}.")
    usage, _, _ = help_of(command).partition("\n\n")
    # On a terminal this wide every flag has one line.
    _, _, rest = help_of(command, 10_000).partition("\n\n")
    yield f"```text\n{usage}\n```"
    for block in re.split(r"\n\n+", rest):
        lines = [line for line in block.splitlines() if line.strip() not in HEADINGS]
        rows = [row for row in _rows([line for line in lines if line.startswith("  ")]) if row[0] not in PLAIN]
        words = [line for line in lines if not line.startswith("  ")]
        if words:
            yield _prose(" ".join(words))
        if rows:
            title = "flag" if all(name.startswith("-") for name, _ in rows) else "argument"
            title = "verb" if PLAIN[0] in block else title
            table = [f"| {title} | meaning |", "| --- | --- |"]
            yield "\n".join(table + [f"| {_code(name)} | {_prose(text)} |" for name, text in rows])


def _rows(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Flags or words and what they mean; argparse writes the meaning of a long one on the next line, further in."""
    waiting, deep = "", 0
    for line in lines:
        further = len(line) - len(line.lstrip()) > deep + 2
        if waiting and further:
            yield waiting, line.strip()
            waiting = ""
            continue
        if waiting:
            yield waiting, ""
        deep = len(line) - len(line.lstrip())
        name, gap, text = line.strip().partition("  ")
        if not gap and (long := LONG.fullmatch(name)):
            name, text = long[1], long[2]
        waiting = "" if text else name
        if text:
            yield name, text.strip()
    if waiting:
        yield waiting, ""


def _code(name: str) -> str:
    return "`" + name.replace("|", "\\|") + "`"


def _prose(text: str) -> str:
    """Text that means what it says: flags are code, and nothing else is markup."""
    text = re.sub(r"([\\*_<\[|])", r"\\\1", text)
    return re.sub(r"(?<![\w`])--[a-z][\w\\-]*", lambda flag: f"`{flag[0]}`".replace("\\_", "_"), text)


def _write(app: object, page: str, source: list[str]) -> None:
    if page == PAGE:
        if MARK not in source[0]:
            raise ValueError(f"{PAGE}.md lacks the line {MARK!r}")
        source[0] = source[0].replace(MARK, reference())


def setup(app) -> dict[str, bool]:
    app.connect("source-read", _write)
    # Its source may be as old as it likes: the parsers are what changes.
    app.connect("env-get-outdated", lambda *_: [PAGE])
    return {"parallel_read_safe": True}
