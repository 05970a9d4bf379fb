"""A file written by `umiak page --export`, opened from the disk as a colleague would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page.browser import Browser
from tests.processes import umiak


@pytest.mark.parametrize("logs", [False, True])
def test_an_exported_file_opens_from_the_disk_and_shows_curves(
    browser: Browser, trained: Path, tmp_path: Path, logs: bool
) -> None:
    file = tmp_path / "runs.html"
    umiak("page", "--export", file, *(["--with-logs"] if logs else []), trained)
    assert file.stat().st_size <= 5_000_000
    browser.open(file.as_uri())
    browser.shows("Exported", ".live")
    browser.click_text(".runs-table tbody a", "three")
    browser.find(".plot canvas")
    for axis in ("Pass", "Time", "Round"):
        browser.click_text(".segmented button", axis)
        browser.until(lambda: browser.all(".plot canvas") and "–" not in browser.text(".legend"))
    browser.click('.tabs a[href$="/logs"]')
    if logs:
        browser.click_text(".log-names button", "worker 0, trainer")
        browser.shows("Saving parameters", ".log-lines")
    else:
        browser.shows("exported without logs")
    browser.press("r")
    for name in ("three", "alone"):
        browser.click_text("td.pick input", f"Choose {name}")
    browser.click_text(".selection button", "Compare")
    browser.shows("seed", ".differences")
    assert all(each.startswith(("file:", "data:")) for each in browser.requests())
