"""Pictures of every view, wide and narrow, light and dark, in build/page-screenshots: for people to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page.browser import Browser
from tests.page.served import Served

PLACE = Path(__file__).parents[2] / "build" / "page-screenshots"
FITS = "return document.documentElement.scrollWidth <= innerWidth"
VIEWS = ("runs", "compare", "curves", "speed", "workers", "model", "checkpoints", "logs", "cost", "help")


def show(browser: Browser, view: str) -> None:
    if view == "compare":
        ids = browser.script("""return [...document.querySelectorAll('.runs-table tbody a')]
            .map((each) => each.getAttribute('href').split('/')[2])""")
        browser.go(f"#/compare/{','.join(ids)}")
        browser.find(".chart canvas")
        browser.find(".differences")
    elif view == "help":
        browser.press("?")
        browser.find("dialog[open]")
    elif view != "runs":
        browser.click_text(".runs-table tbody a", "three")
        browser.click(f'.tabs a[href$="/{view}"]')
        browser.find(f'.tabs a[aria-current][href$="/{view}"]')
    browser.until(lambda: not browser.all(".loading"))


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_fits_wide_and_narrow_screens_in_light_and_dark(browser: Browser, page: Served, view: str) -> None:
    show(browser, view)
    for theme in ("light", "dark"):
        browser.theme(theme)
        browser.until(lambda name=theme: browser.script("return document.documentElement.dataset.theme") == name)
        for width, height in ((1440, 900), (400, 800)):
            browser.size(width, height)
            browser.settle()
            browser.until(lambda: browser.script(FITS), f"{view} is wider than {width} pixels")
            made = browser.picture(PLACE / f"{view}-{width}-{theme}.png", whole=view != "help")
            assert made.stat().st_size > 4_000, f"{made} is blank"
