"""`umiak paddle install DIR`: `paddle` under its own name, only where a user asks for it, and never over another program.

A wheel cannot install a command for some of its users only, so it is not among those of the wheel.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from umiak.errors import InputError
from umiak.files import atomic, disk_error

MARK = "# Written by `umiak paddle install`; delete it to be rid of it."


def run(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print("usage: umiak paddle install DIR\n\nWrites the command paddle to DIR, which should be on your PATH.")
        return 0
    if len(argv) != 1 or argv[0].startswith("-"):
        raise InputError("write the directory for the command: umiak paddle install DIR, one that is on your PATH")
    directory = Path(argv[0])
    if not directory.is_dir():
        raise InputError(f"{directory} is not a directory: name one that is on your PATH")
    script = directory / "paddle"
    if os.path.lexists(script) and MARK not in _text(script):
        raise InputError(f"{script} is another program and is left alone: choose another directory")
    try:
        with atomic(script, 0o755) as file:
            file.write(f'#!/bin/sh\n{MARK}\nexec {shlex.quote(sys.executable)} -m umiak.cli.paddle "$@"\n'.encode())
    except OSError as error:
        raise disk_error(error, script) from error
    print(script)
    if (found := shutil.which("paddle")) is None or Path(found).resolve() != script.resolve():
        why = (
            f"{found} comes first on your PATH, and is what `paddle` means"
            if found
            else f"{directory} is not on your PATH"
        )
        print(f"umiak: warning: {why}", file=sys.stderr)
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
