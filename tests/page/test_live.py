"""A real training run is started, killed and finished while the page is open. Nobody reloads it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.page.browser import Browser
from tests.page.live import kill_a_trainer, training
from tests.page.served import opened
from tests.processes import descendants, wait_until_gone

NEWEST_LINE = (
    "const lines = [...document.querySelectorAll('.log-line')]; return lines.at(-1)?.innerText && lines.length"
)
AT_THE_END = """const box = document.querySelector('.log-lines');
    return box.scrollHeight - box.scrollTop - box.clientHeight < 40"""


def rounds(browser: Browser) -> int:
    """That the page says have been trained; -1 before the first."""
    note = browser.script("""return [...document.querySelectorAll('.stat')].find((each) =>
        each.innerText.startsWith('Passes'))?.innerText ?? ''""")
    return int(note.rpartition("round ")[2].replace(",", "")) if "round " in note else -1


def state(browser: Browser) -> str:
    return browser.text(".run-title .state").strip()


@pytest.mark.timeout(400)
def test_a_run_is_started_killed_and_finished_while_the_page_watches(browser: Browser, tmp_path: Path) -> None:
    root, out = tmp_path / "runs", tmp_path / "runs" / "watched"
    root.mkdir()
    with opened(browser, root):
        browser.shows("No runs yet")
        browser.shows("umiak train")
        with training(out, "--passes", "30") as job:
            browser.click_text(".runs-table tbody a", "watched")
            browser.until(lambda: state(browser) == "Running")
            first = browser.until(lambda: rounds(browser) > 0 and rounds(browser))
            browser.until(lambda: rounds(browser) > first + 5, "the rounds do not go on")
            browser.until(lambda: browser.all(".chart canvas"))
            browser.until(lambda: list(out.glob("checkpoints/*/manifest.json")))

            browser.click('.tabs a[href$="/logs"]')
            browser.click_text(".log-names button", "worker 0, trainer")
            newest = browser.until(lambda: browser.script(NEWEST_LINE))
            browser.until(lambda: browser.script(NEWEST_LINE) != newest, "the log is not followed")
            assert browser.script(AT_THE_END), "the newest line is out of sight"

            kill_a_trainer(job.pid)
            browser.click('.tabs a[href$="/workers"]')
            browser.shows("Restart", ".changes")
            browser.find(".mark-restart")
            before = rounds(browser)
            browser.until(lambda: rounds(browser) > before + 5, "it does not train on after the restart")
            assert state(browser) == "Running"

            browser.click('.tabs a[href$="/checkpoints"]')
            browser.shows("would be repeated if everything died now")
            left = descendants(job.pid)
            os.kill(job.pid, signal.SIGKILL)
            wait_until_gone(left)
            browser.until(lambda: state(browser) == "Stopped", "the page does not see that nobody trains any more")
            browser.shows("umiak train", ".command code")
            assert "--resume" in browser.text(".command code")
            browser.hides("would be repeated if everything died now")
        stopped = rounds(browser)
        with training(out, "--passes", "30", "--resume", pause=0.01):
            browser.until(lambda: state(browser) == "Running", "the page does not see that it resumed")
            browser.until(lambda: rounds(browser) > stopped)
            browser.until(lambda: state(browser) == "Done", "the page does not see that it is done")
        browser.click('.tabs a[href$="/workers"]')
        browser.shows("Done", ".changes")
