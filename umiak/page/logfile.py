"""Lines of a log from some byte on: levels and times as umiak/logs.py writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from umiak.page import safe
from umiak.page.answers import Line, LogLines
from umiak.page.masking import masked

MOST = 256 << 10
NEAR = 16 << 10
"""Lines without a time, as of a traceback, rarely fill more."""
_GLOG = re.compile(r"([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) ")
LEVELS = ("", "I", "W", "E")


def lines(
    path: Path,
    roots: Sequence[Path],
    start: int | None,
    before: int | None = None,
    search: str = "",
    level: str = "",
    around: float | None = None,
) -> LogLines:
    """From `start` on, or up to `before`, or around a time, or the end of the log: whole lines, at most MOST bytes of them."""
    with safe.opened(path, roots) as file:
        size = file.seek(0, 2)
        if around is not None:
            before = _place(file, size, around, datetime.fromtimestamp(path.stat().st_mtime).year) + MOST // 2
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


def _place(file: BinaryIO, size: int, time: float, year: int) -> int:
    """A byte before which everything was written earlier than `time`; times in a log do not fall."""
    low, high = 0, size
    while high - low > NEAR:
        middle = (low + high) // 2
        file.seek(middle)
        found = (_line(0, raw.decode(errors="replace"), year)["time"] for raw in file.read(NEAR).splitlines()[1:])
        first = next((each for each in found if each is not None), None)
        low, high = (middle, high) if first is not None and first < time else (low, middle)
    return low


def _line(at: int, text: str, year: int) -> Line:
    found = _GLOG.match(text)
    if found is None:
        return {"at": at, "level": "", "time": None, "text": text}
    try:
        when = datetime.strptime(f"{year}{found[2]}", "%Y%m%d %H:%M:%S.%f").timestamp()
    except ValueError:
        when = None
    return {"at": at, "level": "E" if found[1] == "F" else found[1], "time": when, "text": text}
