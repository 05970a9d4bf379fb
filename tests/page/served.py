"""The real `umiak page` process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.page.browser import Browser
from tests.processes import kill_tree

CACHE = tempfile.TemporaryDirectory(prefix="umiak-page-cache-")
"""Of all servers of a test run, instead of the user's."""


class Served:
    def __init__(self, *words: str | Path) -> None:
        command = [sys.executable, "-m", "umiak.cli.main", "page", "--no-browser", *map(str, words)]
        environment = {**os.environ, "XDG_CACHE_HOME": CACHE.name}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout
        self.address = next((line.strip() for line in self.process.stdout if line.startswith("http")), "")
        assert self.address, f"umiak page ended with {self.process.wait()} and printed no address"

    @property
    def origin(self) -> str:
        return self.address.partition("/?")[0]

    def end(self) -> None:
        kill_tree(self.process.pid)
        self.process.wait(20)
        if self.process.stdout:
            self.process.stdout.close()


@contextlib.contextmanager
def served(*words: str | Path) -> Iterator[Served]:
    page = Served(*words)
    try:
        yield page
    finally:
        page.end()


@contextlib.contextmanager
def opened(browser: Browser, *words: str | Path) -> Iterator[Served]:
    """Served, open in the browser, and left before the server ends: a server that vanishes is an error to the console."""
    with served(*words) as page:
        browser.open(page.address)
        yield page
        browser.open("about:blank")
