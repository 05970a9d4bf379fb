"""One HTML file that holds runs and the page that shows them: for a colleague, without a server. web/src/exported.ts reads it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from umiak import __version__, system
from umiak.errors import InputError
from umiak.files import atomic, check_target
from umiak.page import built, logfile
from umiak.page.answers import Axis, Exported, ExportedRun, LogLines, Series
from umiak.page.index import Index
from umiak.page.rundirectory import RunDirectory

MOST_BYTES = 5_000_000
WIDTHS = (600, 300, 150, 75, 40, 20, 10)
"""Pixels to thin curves for, from fine to coarse, until everything fits."""
LOG_LINES = 2000
"""At most so many of the last lines of a log; fewer where curves are coarse."""
AXES: tuple[Axis, ...] = ("round", "time", "pass")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<div id="page"></div>
<noscript>This page needs JavaScript.</noscript>
<script type="application/json" id="umiak-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def export(index: Index, target: Path, with_logs: bool, overwrite: bool) -> int:
    """Write it, whole or not at all; returns its bytes."""
    built.check(built.STATIC)
    if not overwrite and target.exists():
        raise InputError(f"{target} exists: choose another name, or add --overwrite")
    check_target(target)
    index.patience = math.inf
    index.refresh()
    found = index.all()
    if not found:
        raise InputError(
            f"there are no runs below {', '.join(map(str, index.roots))}: name a directory that holds some"
        )
    data = _fitting(found, index.roots, with_logs, MOST_BYTES - len(_text("page.js")) - len(_text("page.css")) - 4096)
    page = render(data, ", ".join(run.name for run in found[:3]) + ("…" if len(found) > 3 else ""))
    with atomic(target) as file:
        file.write(page)
    return len(page)


def _text(name: str) -> bytes:
    return (built.STATIC / name).read_bytes()


def render(data: bytes, title: str) -> bytes:
    script, css = _text("page.js").decode(), _text("page.css").decode()
    # A script ends where its element would end, also within a string of it.
    script = re.sub(r"</(?=script)|<(?=!--)", lambda found: {"</": "<\\/", "<": "\\x3c"}[found[0]], script, flags=re.I)
    if "</style" in css.lower():
        raise InputError("the built page cannot stand in one file; build it again with `make web`")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(css)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _PAGE.format(
        policy=policy, title=html.escape(f"{title} – Umiak"), css=css, data=data.decode(), script=script
    ).encode(errors="replace")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def as_data(value: Any) -> bytes:
    """JSON that no parser of HTML takes for markup."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text.encode()


def _fitting(found: Sequence[RunDirectory], roots: Sequence[Path], with_logs: bool, most: int) -> bytes:
    for place, width in enumerate(WIDTHS):
        lines = LOG_LINES >> place if with_logs else None
        runs = [_run(run, roots, width, lines) for run in found]
        content: Exported = {"version": __version__, "written": time.time(), "runs": runs}
        data = as_data(content)
        if len(data) <= most:
            return data
    raise InputError(
        f"{len(found)} runs do not fit into {MOST_BYTES / 1e6:.0f} MB: name the directories of fewer runs"
        + (", or leave out --with-logs" if with_logs else "")
    )


def _run(run: RunDirectory, roots: Sequence[Path], width: int, lines: int | None) -> ExportedRun:
    detail, curves = run.detail(system.locked_files()), run.curves
    names = [each["name"] for each in detail["series"]]
    series = [part for name in names for axis in AXES if (part := curves.part(name, axis, None, None, width))]
    logs: dict[str, LogLines] | None = None
    if lines is None:
        failure = detail["failure"]
        detail = {**detail, "logs": [], "failure": {**failure, "log": ""} if failure else None}
    else:
        logs = {name: _log(path, roots, lines) for name, (_, path) in run.logs().items()}
    return {"detail": detail, "series": [_short(each) for each in series], "logs": logs}


def _log(path: Path, roots: Sequence[Path], most: int) -> LogLines:
    try:
        read = logfile.lines(path, roots)
    except OSError:
        return {"lines": [], "start": 0, "end": 0, "size": 0}
    kept = read["lines"][-most:]
    return {**read, "lines": kept, "start": kept[0]["at"] if kept else read["end"]}


def _short(series: Series) -> Series:
    """Six digits are more than a screen shows; times need milliseconds."""
    x = [round(value, 3 if series["axis"] == "time" else 5) for value in series["x"]]
    y = [None if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in series["y"]]
    return {**series, "x": x, "y": y}
