"""Everything by keyboard, and names for those who hear the page instead of seeing it."""

from __future__ import annotations

import pytest

from tests.page.browser import Browser
from tests.page.served import Served

UNNAMED = """return [...document.querySelectorAll('button, a, input, select, [role=application], [role=log]')].filter((each) => {
  const label = each.getAttribute('aria-label') || each.innerText || each.closest('label')?.innerText || each.title;
  return each.offsetParent !== null && !label?.trim();
}).map((each) => each.outerHTML)"""


def test_runs_are_chosen_compared_and_opened_without_a_mouse(browser: Browser, page: Served) -> None:
    browser.press("j")
    browser.until(lambda: browser.script("return document.activeElement.closest('tbody') !== null"))
    browser.press("x")
    browser.shows("1 run chosen")
    browser.press("ARROW_DOWN", "x")
    browser.shows("2 runs chosen")
    browser.press("c")
    browser.shows("Compare", "h1")
    browser.press("r")
    browser.find(".runs-table")
    browser.press("/")
    browser.until(lambda: browser.script("return document.activeElement.type") == "search")
    browser.press(*"three")
    browser.until(lambda: len(browser.all(".runs-table tbody tr")) == 1)
    browser.press("TAB")
    browser.script("document.activeElement.blur()")
    browser.press("j", "ENTER")
    browser.shows("three", "h1")
    for number, section in enumerate(("curves", "speed", "workers", "model", "checkpoints", "logs", "cost"), 1):
        browser.press(str(number))
        browser.find(f'.tabs a[aria-current][href$="/{section}"]')


def test_a_chart_is_read_zoomed_and_left_for_the_log_by_keyboard(browser: Browser, page: Served) -> None:
    browser.click_text(".runs-table tbody a", "three")
    plot = browser.find(".plot")
    browser.find(".plot canvas")
    browser.script("arguments[0].focus()", plot)
    browser.press("ARROW_LEFT", "ARROW_LEFT")
    at = browser.until(lambda: browser.text(".legend-at"))
    browser.press("ARROW_LEFT")
    browser.until(lambda: browser.text(".legend-at") != at)
    browser.press("+")
    browser.shows("Reset zoom", ".chart-head")
    browser.press("0")
    browser.hides("Reset zoom", ".chart-head")
    browser.press("ARROW_LEFT", "ENTER")
    browser.find('.tabs a[aria-current][href$="/logs"]')
    browser.find(".log-line.marked")


def test_help_opens_names_the_keys_and_closes_with_escape(browser: Browser, page: Served) -> None:
    browser.press("?")
    browser.shows("choose the run for comparison", "dialog")
    browser.press("j")
    assert browser.script("return document.activeElement.closest('tbody') === null"), "keys act below the dialog"
    browser.press("ESCAPE")
    browser.until(lambda: not browser.all("dialog[open]"))


@pytest.mark.parametrize("section", ["", "curves", "speed", "workers", "model", "checkpoints", "logs", "cost"])
def test_every_control_has_a_name(browser: Browser, page: Served, section: str) -> None:
    if section:
        browser.click_text(".runs-table tbody a", "three")
        browser.click(f'.tabs a[href$="/{section}"]')
        browser.until(lambda: not browser.all(".loading"))
    assert browser.script(UNNAMED) == []
    order = browser.script(
        "return [...document.querySelectorAll('h1, h2, h3, h4')].map((each) => Number(each.tagName[1]))"
    )
    assert order[0] == 1 and order.count(1) == 1, f"headings {order}"
