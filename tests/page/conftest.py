"""One browser for a test run, and real runs to look at: they are trained once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.page import needs
from tests.page.browser import Browser
from tests.page.served import Served, opened
from tests.processes import TINY, umiak
from umiak.page import server


def pytest_configure() -> None:
    missing = needs.missing_packages()
    if missing:
        pytest.exit(f"{' and '.join(missing)} missing: `make test-page` installs them", 2)
    if not (server.STATIC / "index.html").is_file():
        pytest.exit("the page is not built: run `make web`", 2)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.end()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """As new: large, light, with nothing open and nothing said. Whatever a test did, the console must have nothing against it."""
    chromium.size(1440, 900)
    chromium.theme("light")
    chromium.command("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
    chromium.complaints()
    chromium.requests()
    yield chromium
    said = chromium.complaints()
    asked = [
        each for each in chromium.requests() if not each.startswith(("http://127.0.0.1:", "data:", "file:", "blob:"))
    ]
    chromium.open("about:blank")
    assert not said, said
    assert not asked, asked


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two runs that differ in a flag: one of three workers, one of a single process."""
    root = tmp_path_factory.mktemp("runs")
    for name, words in (("three", ["--workers", "3"]), ("alone", ["--local", "--seed", "7"])):
        umiak("train", TINY, "--passes", "3", "--log_period", "1", "--out", root / name, *words, pause=0.12)
    return root


@pytest.fixture
def page(browser: Browser, trained: Path) -> Iterator[Served]:
    """The list of the trained runs, on machines that cost a tenth of a cent a second, open in the browser."""
    with opened(browser, trained, "--dollars-per-hour", "3.6") as made:
        browser.find(".runs-table")
        yield made
