"""`umiak train … --page`: the address it prints shows the run from before its first round to its end."""

from __future__ import annotations

from pathlib import Path

from tests.page.browser import Browser
from tests.page.live import training


def test_the_address_that_train_prints_shows_its_run_until_it_ends(browser: Browser, tmp_path: Path) -> None:
    with training(tmp_path / "shown", "--passes", "6", "--page") as job:
        assert job.stdout
        said = browser.until(lambda: next((line for line in job.stdout if "page: http" in line), None))
        browser.open(said.partition("page: ")[2].strip())
        browser.shows("shown", "h1")
        browser.shows("Running", ".run-title")
        browser.until(lambda: browser.all(".plot canvas"))
        assert "token" not in browser.driver.current_url
        browser.shows("The server of this page does not answer")
        assert job.wait(60) == 0
    browser.open("about:blank")
    browser.complaints()  # that a server is away is an error to the console, too
