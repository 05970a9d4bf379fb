"""The list of runs, and several of them beside each other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.page.browser import Browser
from tests.page.served import Served, opened


def names(browser: Browser) -> list[str]:
    return list(
        browser.script("return [...document.querySelectorAll('.runs-table tbody a')].map((each) => each.innerText)")
    )


def test_the_list_shows_state_metric_best_duration_speed_workers_and_cost(browser: Browser, page: Served) -> None:
    headings = [each.text for each in browser.all(".runs-table thead button")]
    row = browser.until(lambda: next((each for each in browser.all("tbody tr") if "three" in each.text), None))
    cells = dict(zip(headings, [each.text for each in row.find_elements("css selector", "td")][1:], strict=True))
    assert cells["State"] == "Done" and cells["Workers"] == "3" and cells["Passes"] == "3"
    assert cells["Metric"].startswith("cost 0.") and float(cells["Best"]) > 0
    assert cells["Duration"].endswith(" s") and float(cells["Samples/s"].replace(",", "")) > 0
    assert cells["Cost ($)"].startswith("$0.")


def test_runs_are_sorted_both_ways_by_a_heading(browser: Browser, page: Served) -> None:
    browser.click_text("thead button", "Name")
    browser.until(lambda: names(browser) == ["alone", "three"])
    assert browser.find('th[aria-sort="ascending"]').text.startswith("Name")
    browser.click_text("thead button", "Name")
    browser.until(lambda: names(browser) == ["three", "alone"])
    browser.click_text("thead button", "Workers")
    browser.until(lambda: names(browser)[0] == "three")


def test_runs_are_filtered_by_words_and_states_and_an_empty_list_offers_a_way_back(
    browser: Browser, page: Served
) -> None:
    browser.type(".filter", "alo")
    browser.until(lambda: names(browser) == ["alone"])
    browser.type(".filter", "nothing like it")
    browser.shows("No run matches")
    browser.click_text(".empty button", "Show all")
    browser.until(lambda: len(names(browser)) == 2)
    browser.click_text(".chip", "Done")
    assert browser.find('.chip[aria-pressed="true"]').text.startswith("Done")
    assert len(names(browser)) == 2
    browser.click_text(".chip", "Done")


def test_chosen_runs_are_laid_over_each_other_and_what_differs_is_listed(browser: Browser, page: Served) -> None:
    for name in ("three", "alone"):
        browser.click_text("td.pick input", f"Choose {name}")
    browser.click_text(".selection button", "Compare")
    browser.until(lambda: len(browser.all(".chart canvas")) >= 2)
    legend = browser.find(".legend").text
    assert "three" in legend and "alone" in legend
    flags = browser.until(lambda: browser.text(".differences"))
    assert "seed" in flags and "7" in flags and "not given" in flags
    assert "log_period" not in flags
    browser.click_text(".check", "Also what is the same")
    browser.shows("log_period", ".differences")
    browser.shows("The configs are the same")


def test_lines_of_configs_that_differ_are_shown(browser: Browser, trained: Path, tmp_path: Path) -> None:
    for name, rate in (("slow", "0.02"), ("fast", "0.5")):
        shutil.copytree(trained / "three", tmp_path / "runs" / name)
        file = tmp_path / "runs" / name / "run.json"
        about = json.loads(file.read_text())
        about["config_text"] = about["config_text"].replace("lr=0.02", f"lr={rate}")
        file.write_text(json.dumps(about))
    with opened(browser, tmp_path / "runs"):
        for name in ("slow", "fast"):
            browser.click_text("td.pick input", f"Choose {name}")
        browser.press("c")
        browser.shows("lr=0.5", ".diff-new")
        browser.shows("lr=0.02", ".diff-old")
