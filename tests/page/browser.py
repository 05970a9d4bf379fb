"""Chromium without a window, driven by Selenium: what a person would do and see, and what the browser says about it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")
PATIENCE = 60.0
"""Nothing takes so long; a busy machine may."""


class Browser:
    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        for word in ("--headless=new", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-gpu", "--mute-audio"):
            options.add_argument(word)
        # What a browser asks its maker on its own is no request of the page.
        for word in (
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
        ):
            options.add_argument(word)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_script_timeout(PATIENCE)
        self.size(1440, 900)

    def end(self) -> None:
        self.driver.quit()

    def open(self, address: str) -> None:
        self.driver.get(address)

    def go(self, hash_: str) -> None:
        self.script("location.hash = arguments[0]", hash_)

    def size(self, width: int, height: int) -> None:
        """Of the page itself; a window cannot be narrower than 500."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", metrics)

    def theme(self, name: str) -> None:
        """As the system says."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.command("Emulation.setEmulatedMedia", {"features": features})

    def command(self, name: str, parameters: dict[str, Any]) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)

    def script(self, text: str, *values: Any) -> Any:
        return self.driver.execute_script(text, *values)

    def find(self, selector: str) -> WebElement:
        return self.until(lambda: next(iter(self.all(selector)), None), f"there is no {selector}")

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "body") -> str:
        return str(self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def until(self, condition: Callable[[], T | None], otherwise: str = "it does not happen") -> T:
        """What the condition gives, once that is something."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if found := condition():
                    return found
            except StaleElementReferenceException:
                pass
            assert time.monotonic() < deadline, f"{otherwise}; the page says:\n{self.text()[:3000]}"
            time.sleep(0.03)

    def shows(self, text: str, selector: str = "body") -> None:
        self.until(lambda: text.lower() in self.text(selector).lower(), f"{selector} does not show {text!r}")

    def hides(self, text: str, selector: str = "body") -> None:
        self.until(lambda: text.lower() not in self.text(selector).lower(), f"{selector} still shows {text!r}")

    def click(self, selector: str) -> None:
        element = self.find(selector)
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def click_text(self, selector: str, text: str) -> None:
        """The element whose text, or whose name for a screen reader, begins so."""
        script = """return [...document.querySelectorAll(arguments[0])].find((each) =>
            (each.getAttribute('aria-label') ?? each.innerText).trim().startsWith(arguments[1]))"""
        element = self.until(lambda: self.script(script, selector, text), f"no {selector} says {text!r}")
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def press(self, *keys: str) -> None:
        actions = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(getattr(Keys, key, key))
        actions.perform()

    def over(self, element: WebElement, x: float, y: float = 0.5) -> ActionChains:
        """The pointer at a place inside, as shares of width and height."""
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        box = element.rect
        actions = ActionChains(self.driver, duration=20)
        return actions.move_to_element_with_offset(
            element, int((x - 0.5) * box["width"]), int((y - 0.5) * box["height"])
        )

    def type(self, selector: str, text: str) -> None:
        element = self.find(selector)
        element.clear()
        element.send_keys(text)

    def picture(self, path: Path, whole: bool = True) -> Path:
        """Of everything, also what one would have to scroll to."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if whole:
            width, height = self.script(
                "return [innerWidth, Math.max(innerHeight, document.documentElement.scrollHeight)]"
            )
            before = self.script("return innerHeight")
            self.size(width, min(height, 6000))
            self.settle()
            self.driver.save_screenshot(str(path))
            self.size(width, before)
        else:
            self.driver.save_screenshot(str(path))
        return path

    def settle(self) -> None:
        """Until two frames have been drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30)))"
        )

    def complaints(self) -> list[str]:
        """What the console has said since the last call: errors and violations of the policy."""
        return [
            f"{each['level']}: {each['message']}" for each in self.driver.get_log("browser") if each["level"] != "INFO"
        ]

    def requests(self) -> list[str]:
        """Every address that the browser asked since the last call."""
        found = []
        for each in self.driver.get_log("performance"):
            message = json.loads(each["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found
