"""How fast the page is. `pytest -n 0 -s tests/page/test_figures.py` prints what was measured, beside what must be reached.

A busy machine must not fail these: a figure may be four times what it must be on an idle one.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import statistics
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.page.browser import Browser
from tests.page.live import training
from tests.page.served import opened, served
from tests.page.written import write_run
from umiak.page import server

SLACK = 4
POINTS = 1_000_000
RUNS = 1_000

# What was drawn is on the screen when the next frame begins.
WATCH_DRAWING = """
  window.drawings = [];
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...words) {
    requestAnimationFrame(() => window.drawings.push([performance.now(), Date.now() / 1000]));
    return clear.apply(this, words);
  };
"""
# Which round the page shows, at each drawing that follows a change of it.
WATCH_ROUNDS = """
  window.shown = [];
  const read = () => [...document.querySelectorAll('.stat')].map((each) => /round ([\\d,]+)/.exec(each.innerText)?.[1])
    .find(Boolean)?.replaceAll(',', '');
  let last = read();
  new MutationObserver(() => {
    const now = read();
    if (!now || now === last) return;
    last = now;
    const before = window.drawings.length;
    const wait = () => {
      if (window.drawings.length > before) window.shown.push([Number(now), window.drawings.at(-1)[1]]);
      else requestAnimationFrame(wait);
    };
    wait();
  }).observe(document.body, {subtree: true, childList: true, characterData: true});
"""
# The time between frames while a function is called before each of them.
FRAMES = """
  const [count, done] = arguments;
  const plot = document.querySelector('.plot .u-over');
  const box = plot.getBoundingClientRect();
  const frames = [];
  let last = 0;
  const step = (time) => {
    if (last) frames.push(time - last);
    last = time;
    if (frames.length >= count) return done(frames);
    const x = box.left + box.width * (0.05 + 0.9 * ((frames.length * 7) % count) / count);
    plot.dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: x, clientY: box.top + 80}));
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
"""


def tell(what: str, value: float, limit: float, unit: str, detail: str = "") -> None:
    print(f"\n{what}: {value:.4g} {unit} (must be ≤ {limit:g} {unit}){'; ' + detail if detail else ''}", flush=True)
    assert value <= limit * SLACK


@contextlib.contextmanager
def watched(browser: Browser) -> Iterator[None]:
    """Pages that are opened meanwhile write down when they draw a chart."""
    made = browser.command("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH_DRAWING})
    yield
    browser.command("Page.removeScriptToEvaluateOnNewDocument", made)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_an_event_in_a_trainer_is_a_pixel_within_a_second(browser: Browser, tmp_path: Path) -> None:
    root, out = tmp_path / "runs", tmp_path / "runs" / "live"
    root.mkdir()
    with watched(browser), training(out, "--passes", "50", pause=0.3), opened(browser, root):
        browser.click_text(".runs-table tbody a", "live")
        browser.find(".plot canvas")
        browser.script(WATCH_ROUNDS)
        shown = browser.until(lambda: len(found := browser.script("return window.shown")) > 20 and found)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    happened = {each["round"]: seconds(each["time"]) for each in events if each["event"] == "round"}
    delays = [
        drawn - happened[number]
        for (before, _), (last, drawn) in itertools.pairwise(shown)
        for number in range(before + 1, last + 1)
    ]
    detail = f"{len(delays)} rounds, slowest {max(delays):.2f} s"
    tell("an event in a trainer to its pixel, median", statistics.median(delays), 1, "s", detail)


@pytest.mark.timeout(600)
def test_a_million_points_are_painted_zoomed_and_hovered(browser: Browser, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "long", POINTS, passes=20)
    for what in ("for the first time", "by umiak page started again"):
        began = time.monotonic()
        with watched(browser), opened(browser, tmp_path / "runs") as page:
            link = browser.find(".runs-table tbody a").get_attribute("href")
            print(f"\n{POINTS:,} points read {what}: {time.monotonic() - began:.2f} s to the list")
            paints = [paint(browser, str(link)) for _ in range(5)]
            detail = f"when it is opened first {paints[0]:.2f} s"
            tell(f"first useful paint of {POINTS:,} points, median of 5", statistics.median(paints), 1.5, "s", detail)
            hover(browser, "hover")
            zooms = [zoom(browser) for _ in range(5)]
            detail = f"slowest {max(zooms):.0f} ms"
            tell("zoom, from the end of the drag to the frame, median of 5", statistics.median(zooms), 50, "ms", detail)
            hover(browser, "hover when zoomed in")
            assert page.process.poll() is None


def paint(browser: Browser, address: str) -> float:
    """Seconds from the start of loading a run's address to its first curve."""
    browser.open("about:blank")
    browser.open(address)
    return float(browser.until(lambda: browser.script("return window.drawings[0]?.[0]"))) / 1000


def hover(browser: Browser, what: str) -> None:
    frames = browser.driver.execute_async_script(FRAMES, 120)
    assert "round" in browser.text(".legend-at"), "the pointer was not noticed"
    tell(f"{what}, median frame of 120", statistics.median(frames), 50, "ms", f"95 % within {_most(frames):.0f} ms")


def zoom(browser: Browser) -> float:
    """Milliseconds."""
    plot = browser.find(".plot .u-over")
    browser.over(plot, 0.3).click_and_hold().perform()
    browser.script("""window.drawings = []; window.released = null;
        addEventListener('mouseup', () => { window.released = performance.now(); }, {once: true, capture: true})""")
    browser.over(plot, 0.7).release().perform()
    drawn = browser.until(lambda: browser.script("return window.drawings[0]?.[0]"))
    browser.settle()
    return float(drawn - browser.script("return window.released"))


def _most(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def test_the_page_is_small_over_the_wire(browser: Browser, trained: Path) -> None:
    with opened(browser, trained):
        browser.find(".runs-table")
        sent = browser.script("""return performance.getEntriesByType('resource')
            .concat(performance.getEntriesByType('navigation'))
            .filter((each) => !each.name.includes('/api/')).reduce((sum, each) => sum + each.transferSize, 0)""")
    packed = sum(
        len(gzip.compress((server.STATIC / name).read_bytes())) for name in ("index.html", "page.js", "page.css")
    )
    assert sent > 0
    tell("the page over the wire, compressed", packed / 1000, 300, "kB", f"as it was sent here, {sent / 1000:.0f} kB")
    assert packed <= 300_000


@pytest.mark.timeout(600)
def test_a_thousand_runs_are_listed(browser: Browser, tmp_path: Path) -> None:
    for number in range(RUNS):
        write_run(tmp_path / "runs" / f"run-{number:04}", 200, seed=number)
    for what, limit in (("first time", 5.0), ("umiak page started again", 1.0)):
        began = time.monotonic()
        with served(tmp_path / "runs") as page:
            ready = time.monotonic() - began
            began = time.monotonic()
            browser.open(page.address)
            browser.shows(f"{RUNS:,} runs", ".view-head")
            browser.until(lambda: len(browser.all(".runs-table tbody tr")) >= 100)
            took = time.monotonic() - began
            tell(
                f"list of {RUNS:,} runs, {what}, in the browser",
                took,
                limit,
                "s",
                f"the server took {ready:.2f} s to start",
            )
            if what == "first time":
                began = time.monotonic()
                browser.driver.refresh()
                browser.until(lambda: len(browser.all(".runs-table tbody tr")) >= 100)
                tell(f"list of {RUNS:,} runs, loaded again", time.monotonic() - began, 1, "s")
            browser.open("about:blank")
