"""Lines of a log from some byte on: levels and times as umiak/logs.py writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from umiak.page import safe
from umiak.page.answers import Line, LogLines
from umiak.page.masking import masked

MOST = 256 << 10
_GLOG = re.compile(r"([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) ")
LEVELS = ("", "I", "W", "E")


def lines(
    path: Path, roots: Sequence[Path], start: int | None, before: int | None = None, search: str = "", level: str = ""
) -> LogLines:
    """From `start` on, or up to `before`, or the end of the log: whole lines, at most MOST bytes of them."""
    with safe.opened(path, roots) as file:
        size = file.seek(0, 2)
        until = size if before is None else max(0, min(before, size))
        first = max(0, until - MOST) if start is None else max(0, min(start, size))
        file.seek(first)
        data = file.read(MOST if start is not None else until - first)
        year = datetime.fromtimestamp(path.stat().st_mtime).year
    if start is None and first > 0:
        cut = data.find(b"\n") + 1
        first, data = first + cut, data[cut:]
    data = data[: data.rfind(b"\n") + 1]
    found: list[Line] = []
    at = first
    for raw in data.splitlines(keepends=True):
        line = _line(at, masked(raw.decode(errors="replace").rstrip("\r\n")), year)
        at += len(raw)
        if search.lower() in line["text"].lower() and (not level or LEVELS.index(line["level"]) >= LEVELS.index(level)):
            found.append(line)
    return {"lines": found, "start": first, "end": first + len(data), "size": size}


def _line(at: int, text: str, year: int) -> Line:
    found = _GLOG.match(text)
    if found is None:
        return {"at": at, "level": "", "time": None, "text": text}
    try:
        when = datetime.strptime(f"{year}{found[2]}", "%Y%m%d %H:%M:%S.%f").timestamp()
    except ValueError:
        when = None
    return {"at": at, "level": "E" if found[1] == "F" else found[1], "time": when, "text": text}
