"""A run that fails by its own config, while the page shows it: what failed comes first, with advice and the last lines."""

from __future__ import annotations

from pathlib import Path

from tests.page.browser import Browser
from tests.page.served import opened
from tests.processes import TINY, umiak

CONFIG = f"""
import dataclasses, runpy
whole = runpy.run_path({str(TINY)!r})["config"]
seen = []

def loss(output, batch):
    seen.append(1)
    if len(seen) > 20:
        raise ValueError("the target of sample 481 is <b>not a number</b>")
    return whole.loss(output, batch)

config = dataclasses.replace(whole, loss=loss)
"""


def test_a_failure_comes_first_with_its_cause_advice_and_last_lines(browser: Browser, tmp_path: Path) -> None:
    root, config = tmp_path / "runs", tmp_path / "config.py"
    root.mkdir()
    config.write_text(CONFIG)
    with opened(browser, root):
        browser.shows("No runs yet")
        umiak("train", config, "--workers", "2", "--log_period", "1", "--out", root / "broken", code=2)
        browser.shows("the target of sample 481 is <b>not a number</b>", ".runs-table .problem")
        browser.shows("Failed", ".runs-table")
        browser.click_text(".runs-table tbody a", "broken")
        browser.shows("Failure: loss raised ValueError", ".failure h3")
        browser.click_text(".failure a", "Details")
        browser.shows("--resume", ".failure .advice")
        browser.shows("Its last lines", ".failure")
        browser.shows("ValueError", ".failure pre")
        browser.find(".mark-failed")
