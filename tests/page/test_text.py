"""Names and log lines are text, never markup: whatever a run is called or writes, nothing of it runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.page.browser import Browser
from tests.page.served import opened

EVIL = "<script>document.title='pwned'<", "<img src=x onerror=document.title='pwned'>"


def test_names_and_log_lines_are_shown_as_text_and_nothing_of_them_runs(
    browser: Browser, trained: Path, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    names = (f"{EVIL[0]}/script>", "$(touch x)", "<b>bold<", "a&amp;b")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(trained / "three", root / name)
    log = root / "<b>bold<" / "node_0" / "train.log"
    log.write_text(f"W1118 10:00:00.000000 1 a.py:1] {EVIL[1]}\nE1118 10:00:01.000000 1 a.py:2] {EVIL[0]}\n")
    run = json.loads((root / "<b>bold<" / "run.json").read_text())
    run["flags"]["seed"], run["config_text"] = EVIL[1], f"# {EVIL[1]}\n"
    (root / "<b>bold<" / "run.json").write_text(json.dumps(run))
    with opened(browser, root):
        for name in names:
            browser.shows(name, ".runs-table")
        browser.click_text(".runs-table tbody a", "<b>bold<")
        browser.shows("<b>bold<", "h1")
        browser.click('.tabs a[href$="/logs"]')
        browser.click_text(".log-names button", "worker 0, trainer")
        browser.shows(EVIL[1], ".log-lines")
        browser.shows(EVIL[0], ".log-lines")
        browser.type(".log-card input", "<img")
        browser.until(lambda: browser.text("mark") == "<img")
        browser.click('.tabs a[href$="/model"]')
        browser.shows(EVIL[1], ".flags")
        assert browser.driver.title.startswith("<b>bold<")
        assert not browser.all("img[src=x], .log-lines script, h1 b")
    assert not (Path.cwd() / "x").exists()


def test_a_script_from_elsewhere_would_be_refused_by_the_policy(browser: Browser, trained: Path) -> None:
    """That the console says nothing in other tests means something: here it does."""
    with opened(browser, trained):
        browser.find(".runs-table")
        browser.script("""const made = document.createElement('script'); made.textContent = "document.title = 'pwned'";
            document.head.append(made)""")
        said = browser.until(browser.complaints, "the console does not tell of the violation")
        assert any("Content Security Policy" in each for each in said)
        assert "pwned" not in browser.driver.title
