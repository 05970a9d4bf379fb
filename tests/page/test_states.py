"""What the page says when something is missing, gone or out of reach."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from tests.page.browser import Browser
from tests.page.served import Served, opened, served
from tests.page.written import write_run


def test_a_run_that_is_deleted_while_shown_says_so_and_the_page_goes_on(
    browser: Browser, trained: Path, tmp_path: Path
) -> None:
    for name in ("kept", "removed"):
        shutil.copytree(trained / "three", tmp_path / "runs" / name)
    with opened(browser, tmp_path / "runs"):
        browser.click_text(".runs-table tbody a", "removed")
        browser.find(".chart canvas")
        shutil.rmtree(tmp_path / "runs" / "removed")
        browser.shows("This run is gone")
        browser.press("r")
        browser.shows("kept", ".runs-table")
        assert "removed" not in browser.text(".runs-table")


def test_a_server_that_stops_leaves_a_page_that_says_it_is_old(browser: Browser, page: Served) -> None:
    browser.shows("Live", ".live")
    page.end()
    browser.shows("Not connected", ".live")
    browser.shows("The server of this page does not answer")
    browser.shows("three", ".runs-table")
    browser.open("about:blank")
    browser.complaints()  # that a server is away is an error to the console, too


def test_a_server_that_hangs_is_told_from_one_that_has_nothing_new(browser: Browser, page: Served) -> None:
    """A minute passes at once: the browser's clock is moved."""
    browser.shows("Live", ".live")
    os.kill(page.process.pid, signal.SIGSTOP)
    try:
        browser.script("const real = Date.now; Date.now = () => real.call(Date) + 60_000")
        browser.shows("The server of this page does not answer")
    finally:
        os.kill(page.process.pid, signal.SIGCONT)
    browser.hides("The server of this page does not answer")


def test_a_server_that_was_started_again_asks_for_the_new_address(
    browser: Browser, trained: Path, page: Served
) -> None:
    browser.shows("Live", ".live")
    port = page.origin.rpartition(":")[2]
    page.end()
    with served(trained, "--port", port) as again:
        browser.shows("Open the address that umiak page printed")
        browser.complaints()
        browser.open(again.address)
        browser.shows("Live", ".live")
        browser.open("about:blank")
    browser.complaints()


def test_an_address_of_a_run_that_is_not_there_says_what_to_do(browser: Browser, page: Served) -> None:
    browser.go("#/run/0123456789abcdef/curves")
    browser.shows("This run cannot be shown")
    browser.shows("All runs", ".empty")
    browser.go("#/nonsense")
    browser.shows("There is nothing at this address")
    assert all("404" in each for each in browser.complaints())


def test_half_written_and_damaged_runs_are_listed_and_the_rest_works(
    browser: Browser, trained: Path, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    shutil.copytree(trained / "three", root / "damaged")
    shutil.copytree(trained / "alone", root / "whole")
    with (root / "damaged" / "metrics.jsonl").open("ab") as file:
        file.write(b'{"event": "round", "rou\nnull\n\x00\x01\n{"half')
    (root / "begun").mkdir()
    (root / "begun" / "run.json").write_text("{")
    with opened(browser, root):
        browser.shows("damaged lines", ".runs-table")
        browser.shows("begun", ".runs-table")
        browser.click_text(".runs-table tbody a", "begun")
        browser.shows("No curves yet")
        browser.press("r")
        browser.click_text(".runs-table tbody a", "damaged")
        browser.find(".chart canvas")


def test_a_long_run_that_is_read_for_the_first_time_grows_until_it_is_whole(browser: Browser, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "long", 600_000)
    with opened(browser, tmp_path / "runs"):
        browser.click_text(".runs-table tbody a", "long")
        browser.find(".plot canvas")
        browser.shows("round 600,000", ".stats")
        browser.script("arguments[0].focus()", browser.find(".plot"))

        def at_the_end() -> bool:
            browser.press("ARROW_RIGHT")
            return "600k" in browser.text(".legend-at")

        browser.until(at_the_end, "the curve does not reach its last round")
