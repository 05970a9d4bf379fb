"""The page as `make web` builds it: where its files are, and what to do if they are not there."""

from __future__ import annotations

from pathlib import Path

from umiak.errors import InputError

STATIC = Path(__file__).parent / "static"
FILES = {"index.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}


def check(static: Path) -> None:
    if not (static / "index.html").is_file():
        raise InputError("the page is not built: run `make web`, which needs no root, in the source tree")
