"""What the machine must have: the built page, and Debian's Chromium with its driver, installed here when missing."""

from __future__ import annotations

import os
import shutil
import subprocess

from umiak.errors import InputError

PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver"}


def missing_packages() -> list[str]:
    return [package for program, package in PACKAGES.items() if not shutil.which(program)]


def require() -> None:
    missing = missing_packages()
    if not missing:
        return
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise InputError(f"{' and '.join(missing)} missing: install them, or run this as root on a Debian")
    print(f"installing {', '.join(missing)}", flush=True)
    _apt("update")
    # Chromium recommends a font; without any, a page has no letters.
    _apt("install", "-y", "--no-install-recommends", "fonts-dejavu-core", *missing)
    if still := missing_packages():
        raise InputError(f"apt-get installed {', '.join(still)}, but the programs are not in PATH")


def _apt(*words: str) -> None:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    done = subprocess.run(
        ["apt-get", "-qq", *words], env=quiet, timeout=900, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise InputError(f"apt-get {words[0]} failed: {done.stderr.strip()[-1000:]}")
