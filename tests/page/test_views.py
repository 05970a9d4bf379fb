"""Every view of the page, with real runs: what a user must be able to see and do."""

from __future__ import annotations

import pytest

from tests.page.browser import Browser
from tests.page.served import Served

SECTIONS = ("curves", "speed", "workers", "model", "checkpoints", "logs", "cost")


def open_run(browser: Browser, name: str, section: str = "curves") -> None:
    browser.click_text(".runs-table tbody a", name)
    browser.click(f'.tabs a[href$="/{section}"]')
    browser.find(f'.tabs a[aria-current][href$="/{section}"]')


def test_the_list_shows_state_metric_duration_speed_and_workers(browser: Browser, page: Served) -> None:
    row = browser.until(lambda: next((each for each in browser.all("tbody tr") if "three" in each.text), None))
    for expected in ("Done", "cost 0.", "three", "3"):
        assert expected in row.text


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_of_a_run_opens(browser: Browser, page: Served, section: str) -> None:
    open_run(browser, "three", section)
    browser.until(lambda: not browser.all(".loading"))
