"""Every section of a run that was really trained: what a user must be able to see and do."""

from __future__ import annotations

from selenium.webdriver.support.select import Select

from tests.page.browser import Browser
from tests.page.served import Served


def open_run(browser: Browser, section: str = "curves", name: str = "three") -> None:
    browser.click_text(".runs-table tbody a", name)
    browser.click(f'.tabs a[href$="/{section}"]')
    browser.find(f'.tabs a[aria-current][href$="/{section}"]')
    browser.until(lambda: not browser.all(".loading"))


def drawn(browser: Browser) -> str:
    """The pixels of the first chart."""
    browser.settle()
    return str(browser.script("return document.querySelector('.plot canvas').toDataURL()"))


def test_curves_change_with_axis_scale_and_smoothing(browser: Browser, page: Served) -> None:
    open_run(browser)
    browser.find(".plot canvas")
    seen = [drawn(browser)]
    for act in (
        lambda: browser.click_text(".segmented button", "Pass"),
        lambda: browser.click_text(".segmented button", "Time"),
        lambda: browser.click_text(".check", "Log scale"),
        lambda: browser.script("""const slider = document.querySelector('.slider input'); slider.value = 0.9;
            slider.dispatchEvent(new Event('input', {bubbles: true}))"""),
        lambda: browser.press("t"),
    ):  # fmt: skip
        act()
        browser.until(lambda: drawn(browser) not in seen, "the chart does not change")
        seen.append(drawn(browser))


def test_the_pointer_shows_values_and_a_drag_zooms(browser: Browser, page: Served) -> None:
    open_run(browser)
    plot = browser.find(".plot .u-over")
    browser.over(plot, 0.5).perform()
    browser.shows("round", ".legend-at")
    value = browser.text(".legend-value")
    browser.over(plot, 0.1).perform()
    browser.until(lambda: browser.text(".legend-value") != value)
    browser.over(plot, 0.2).click_and_hold().perform()
    browser.over(plot, 0.6).release().perform()
    browser.shows("Reset zoom", ".chart-head")
    browser.over(plot, 0.5).double_click().perform()
    browser.hides("Reset zoom", ".chart-head")


def test_a_name_in_the_legend_hides_its_curve_and_what_was_chosen_is_remembered(browser: Browser, page: Served) -> None:
    open_run(browser)
    whole = drawn(browser)
    browser.click_text("button.legend-item", "test")
    browser.until(lambda: drawn(browser) != whole, "the curve is still drawn")
    assert browser.find('.legend-item[aria-pressed="false"]').text.startswith("test")
    browser.click_text("button.legend-item", "train")
    browser.settle()
    assert len(browser.all('.legend-item[aria-pressed="false"]')) == 1, "the last curve is hidden, too"
    browser.click_text(".segmented button", "Pass")
    browser.driver.refresh()
    browser.until(lambda: browser.text('.segmented [aria-pressed="true"]') == "Pass", "the axis is forgotten")


def test_a_click_on_a_point_opens_the_log_at_its_time(browser: Browser, page: Served) -> None:
    open_run(browser)
    browser.over(browser.find(".plot .u-over"), 0.5).click().perform()
    browser.find('.tabs a[aria-current][href$="/logs"]')
    marked = browser.find(".log-line.marked")
    asked = float(browser.script("return new URLSearchParams(location.hash.split('?')[1]).get('time')"))
    shown = browser.script("const at = new Date(arguments[0] * 1000); return at.toTimeString().slice(0, 5)", asked)
    assert shown in marked.text, f"{marked.text!r} is not of {shown}"
    browser.until(lambda: browser.script("""const line = arguments[0].getBoundingClientRect();
        const box = arguments[0].parentElement.getBoundingClientRect();
        return line.top >= box.top && line.bottom <= box.bottom""", marked))  # fmt: skip


def test_where_a_round_goes_adds_up_and_names_the_slowest(browser: Browser, page: Served) -> None:
    open_run(browser, "speed")
    browser.shows("is the slowest", ".finding")
    assert [each.text.replace(" slowest", "") for each in browser.all(".rounds-name")] == [
        "worker 0",
        "worker 1",
        "worker 2",
    ]
    widths = browser.script("""return [...document.querySelectorAll('.rounds-bar')].map((bar) =>
        [...bar.children].reduce((sum, part) => sum + parseFloat(part.style.width), 0))""")
    assert all(abs(width - 100) < 2 for width in widths), widths
    titles = [each.text for each in browser.all(".chart h3")]
    assert titles == ["Samples per second", "A round over time", "Bytes per round", "Memory", "CPU, in cores"]
    before = browser.script("return document.querySelectorAll('.plot canvas')[1].toDataURL()")
    choice = Select(browser.find(".chart-head select"))
    choice.select_by_index((choice.options.index(choice.first_selected_option) + 1) % 3)
    browser.until(lambda: browser.script("return document.querySelectorAll('.plot canvas')[1].toDataURL()") != before)
    assert len(browser.all("table tbody tr")) == 9, "a trainer, a server and a supervisor for each of three workers"


def test_the_timeline_has_a_row_for_every_worker(browser: Browser, page: Served) -> None:
    open_run(browser, "workers")
    assert [each.text for each in browser.all(".row-name")] == ["worker 0", "worker 1", "worker 2"]
    browser.shows("training", ".legend")
    browser.shows("Done", ".changes")
    browser.click_text(".check", "With checkpoints")
    browser.shows("Checkpoint", ".changes")


def test_the_model_shows_tables_services_drawing_and_config(browser: Browser, page: Served) -> None:
    open_run(browser, "model")
    table = browser.text("table")
    assert "words.weight" in table and "495" in table
    assert len(browser.all(".rounds li")) == 3, "three services"
    browser.click("summary")
    browser.shows("class Model", "pre")
    browser.until(
        lambda: browser.script("const image = document.querySelector('.drawing img'); return image?.naturalWidth > 0")
    )


def test_checkpoints_have_commands_to_copy(browser: Browser, page: Served) -> None:
    browser.command("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    open_run(browser, "checkpoints")
    commands = [each.text for each in browser.all(".command code")]
    assert any("--resume" in each for each in commands) and any(each.startswith("umiak test") for each in commands)
    browser.click(".command button")
    browser.shows("Copied", ".command")
    assert browser.script("return navigator.clipboard.readText()") == commands[0]
    assert "round-" in browser.text(".halves") and "pass-00002" in browser.text(".halves")


def test_logs_are_searched_and_filtered(browser: Browser, page: Served) -> None:
    open_run(browser, "logs")
    browser.click_text(".log-names button", "worker 0, trainer")
    browser.shows("Saving parameters", ".log-lines")
    browser.type(".log-card input", "saving PARAMETERS")
    browser.until(lambda: len(browser.all(".log-line")) == 3, "three passes were saved")
    assert browser.text("mark").lower() == "saving parameters"
    browser.click_text(".segmented button", "Errors")
    browser.shows("No line matches")


def test_the_cost_is_told_where_prices_are_known(browser: Browser, page: Served) -> None:
    open_run(browser, "cost")
    text = browser.text("main")
    assert "So far" in text and "$3.60" in text and "Lost to restarts" in text
