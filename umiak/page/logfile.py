"""Lines of a log from some byte on: levels and times as umiak/logs.py writes them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
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
STEP = 32 << 10
DAY = 86_400.0


@dataclass(frozen=True)
class Question:
    """From `start` on, or up to `before`, or around a `time`; without any of them, the end of the log."""

    start: int | None = None
    before: int | None = None
    time: float | None = None
    search: str = ""
    level: str = ""


END = Question()


def lines(path: Path, roots: Sequence[Path], question: Question = END) -> LogLines:
    """Whole lines, at most MOST bytes of them."""
    with safe.opened(path, roots) as file:
        size, written = file.seek(0, 2), os.fstat(file.fileno()).st_mtime
        first, until, whole = _range(file, size, written, question)
        file.seek(first)
        data = file.read(until - first)
    if first > 0 and not whole:
        cut = data.find(b"\n") + 1
        first, data = first + cut, data[cut:]
    # A line that is longer than everything is shown in parts; the half of another is not shown yet.
    data = data[: data.rfind(b"\n") + 1 or (len(data) if len(data) >= MOST else 0)]
    found: list[Line] = []
    at = first
    wanted, least = question.search.lower(), LEVELS.index(question.level)
    for raw in data.splitlines(keepends=True):
        line = _line(at, masked(raw.decode(errors="replace").rstrip("\r\n")), written)
        at += len(raw)
        if wanted in line["text"].lower() and LEVELS.index(line["level"]) >= least:
            found.append(line)
    return {"lines": found, "start": first, "end": first + len(data), "size": size}


def _range(file: BinaryIO, size: int, written: float, question: Question) -> tuple[int, int, bool]:
    """The bytes to read, and whether they begin with a whole line."""
    if question.time is not None:
        middle = _place_of(file, size, written, question.time)
        first = max(0, middle - MOST // 2)
        return first, min(size, first + MOST), False
    if question.start is not None:
        first = max(0, min(question.start, size))
        return first, min(size, first + MOST), True
    until = size if question.before is None else max(0, min(question.before, size))
    return max(0, until - MOST), until, False


def _place_of(file: BinaryIO, size: int, written: float, time: float) -> int:
    """Near the first line of that time or later; the lines of a log are in the order of their times."""
    low, high = 0, size
    while high - low > STEP:
        middle = (low + high) // 2
        file.seek(middle)
        texts = file.read(STEP).decode(errors="replace").splitlines()[1:]
        when = next((found for text in texts if (found := _line(0, text, written)["time"]) is not None), None)
        if when is None or when >= time:
            high = middle
        else:
            low = middle
    return low


def _line(at: int, text: str, written: float) -> Line:
    """A line of a file that was `written` to last then: its own time has no year."""
    found = _GLOG.match(text)
    if found is None:
        return {"at": at, "level": "", "time": None, "text": text}
    return {"at": at, "level": "E" if found[1] == "F" else found[1], "time": _time(found[2], written), "text": text}


def _time(text: str, written: float) -> float | None:
    year = datetime.fromtimestamp(written).year
    for each in (year, year - 1):
        try:
            when = datetime.strptime(f"{each}{text}", "%Y%m%d %H:%M:%S.%f").timestamp()
        except ValueError:
            continue
        if when < written + DAY:
            return when
    return None
