"""The pictures of docs/page.md and the README: of real runs, one disturbed, one stopped and one still training.

`python -m tests.page pictures` makes them again, in about six minutes on two cores. It fetches MovieLens.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from tests.page.browser import Browser
from tests.page.live import kill_a_trainer, sockets
from tests.page.served import opened
from tests.processes import descendants, kill_tree, start, umiak, wait_until_gone

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "docs" / "page"
CONFIG = ROOT / "examples" / "recommendation" / "config.py"
MOST = 150_000
SIZE = (1280, 800)
PATIENCE = 600


def make() -> None:
    umiak("data", "fetch", "movielens", timeout=PATIENCE)
    with tempfile.TemporaryDirectory(prefix="umiak-") as place:
        root = Path(place) / "out"
        # No path of this machine in a picture.
        shutil.copy(CONFIG, root.with_name("config.py"))
        train(root / "batch-1600", "batch=1600", 3)
        train(root / "batch-800", "batch=800", 3, after_a_pass=kill_a_trainer)
        train(root / "batch-3200", "batch=3200", 3, after_a_pass=kill)
        show(root)


def words(out: Path, arguments: str, passes: int) -> tuple[str | Path, ...]:
    given = ("--workers", "3", "--passes", str(passes), "--log_period", "1", "--checkpoint_minutes", "0.1")
    return "train", out.parent.with_name("config.py"), *given, "--config_args", arguments, "--out", out


def train(out: Path, arguments: str, passes: int, after_a_pass: Callable[[int], None] | None = None) -> None:
    place = sockets()
    process = start(*words(out, arguments, passes), TMPDIR=place.name)
    try:
        if after_a_pass:
            wait(lambda: len(list(out.glob("pass-*/done"))) >= 1)
            left = descendants(process.pid)
            after_a_pass(process.pid)
            if after_a_pass is kill:
                wait_until_gone(left)
        process.communicate(timeout=PATIENCE)
    finally:
        kill_tree(process.pid)
        place.cleanup()


def kill(launcher: int) -> None:
    os.kill(launcher, signal.SIGKILL)


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def show(root: Path) -> None:
    """With a run that is under way."""
    place = sockets()
    process = start(*words(root / "batch-400", "batch=400", 20), TMPDIR=place.name)
    browser = Browser()
    try:
        wait(lambda: len(list((root / "batch-400").glob("pass-*/done"))) >= 2)
        browser.size(*SIZE)
        with opened(browser, root, "--dollars-per-hour", "1.20"):
            take_all(browser)
    finally:
        browser.end()
        left = descendants(process.pid)
        kill_tree(process.pid)
        process.wait(30)
        wait_until_gone(left)
        place.cleanup()


def take_all(browser: Browser) -> None:
    browser.until(lambda: len(browser.all(".runs-table tbody tr")) == 4)
    take(browser, "runs")
    run(browser, "batch-400", "curves")
    browser.script("""const slider = document.querySelector('.slider input'); slider.value = 0.6;
        slider.dispatchEvent(new Event('input', {bubbles: true}))""")
    browser.over(browser.find(".plot .u-over"), 0.6).perform()
    take(browser, "curves")
    run(browser, "batch-400", "speed")
    browser.theme("dark")
    take(browser, "speed")
    run(browser, "batch-800", "workers")
    browser.theme("light")
    take(browser, "workers")
    run(browser, "batch-800", "model")
    take(browser, "model")
    run(browser, "batch-3200", "checkpoints")
    take(browser, "checkpoints")
    run(browser, "batch-400", "logs")
    take(browser, "logs")
    browser.press("r")
    for name in ("batch-1600", "batch-800"):
        browser.click_text("td.pick input", f"Choose {name}")
    browser.click_text(".selection button", "Compare")
    browser.find(".differences")
    browser.click_text(".segmented button", "Pass")
    take(browser, "compare")


def run(browser: Browser, name: str, section: str) -> None:
    browser.go("#/")
    browser.click_text(".runs-table tbody a", name)
    browser.click(f'.tabs a[href$="/{section}"]')
    browser.find(f'.tabs a[aria-current][href$="/{section}"]')
    browser.until(lambda: not browser.all(".loading"))
    if section in ("curves", "speed", "model"):
        browser.find(".plot canvas")


def take(browser: Browser, name: str) -> None:
    browser.settle()
    path = browser.picture(PLACE / f"{name}.png", whole=False)
    with Image.open(path) as image:
        # 256 colours that also cover what is small, as the dot that says "live".
        image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            path, optimize=True
        )
    assert path.stat().st_size < MOST, f"{path} is too large"
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB", flush=True)
