"""Which language a config is written in, told by its text before anything of it runs."""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([\w.]+)|import[ \t]+([\w., \t]+))", re.MULTILINE)
_PLACE = re.compile(rb"""sys\.path\.(?:append|insert)\([^)'"]*['"]([^'"]+)['"]""")


def is_v1(path: Path) -> bool:
    """Whether a config is in PaddlePaddle's v1 language: it imports paddle, or a module that it imports does."""
    places = [path.parent, Path.cwd()]
    waiting, seen = [path], set()
    while waiting:
        file = waiting.pop()
        seen.add(file.resolve())
        data = file.read_bytes()
        places += [Path.cwd() / found.decode(errors="replace") for found in _PLACE.findall(data)]
        for name in _imported(data):
            if name == "paddle":
                return True
            found = next((each for place in places if (each := place / f"{name}.py").is_file()), None)
            if found is not None and found.resolve() not in seen:
                waiting.append(found)
    return False


def _imported(data: bytes) -> set[str]:
    """The first parts of the names of all modules that a text imports."""
    words = [one or word for one, many in _IMPORT.findall(data) for word in (many.split(b",") if many else [one])]
    return {word.split()[0].decode(errors="replace").partition(".")[0] for word in words if word.split()}
