"""What belongs to the machine somebody works on and must not be committed: `python -m tests.machine_paths [FILE …]`.

That is the path of this clone, of its Python and of a home directory, and the host of a package index other than PyPI.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PUBLIC_INDEX = {"pypi.org", "test.pypi.org"}
# Where tools are told which index to use.
INDEX_SETTINGS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX")
INDEX_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf", "~/.config/uv/uv.toml", "/etc/uv/uv.toml")


def forbidden() -> set[str]:
    # /root is everybody's: images have it too.
    homes = {str(Path.home())} - {"/root", "/"}
    return {str(ROOT), sys.base_prefix, *homes, *_index_hosts()} - {"/usr", "/usr/local"}


def _index_hosts() -> set[str]:
    texts = [os.environ.get(name, "") for name in INDEX_SETTINGS]
    texts += [path.read_text() for path in map(Path.expanduser, map(Path, INDEX_FILES)) if path.is_file()]
    hosts = {host for text in texts for host in re.findall(r"https?://(?:[^@/\s]*@)?([^/:\s\"']+)", text)}
    return hosts - PUBLIC_INDEX


def offences(paths: Iterable[Path], words: set[str]) -> list[str]:
    """One line for each place: file, line number and what stands there."""
    found = []
    for path in paths:
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{path}:{number}: {word}" for number, line in enumerate(lines, 1) for word in words if word in line]
    return found


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def main(names: list[str]) -> int:
    found = offences([Path(name) for name in names] or tracked(), forbidden())
    for line in found:
        print(f"{line} belongs to this machine; write it so that it holds on any")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
