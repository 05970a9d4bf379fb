"""docs/architecture.md names files and packages that exist, and its walks are as short as they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text()
LONGEST = {
    "A round": 18,
    "A kill -9": 15,
    "A job from submit to its first round": 24,
    "A v1 config to a running model": 20,
}
"""How many files a newcomer should have to open, at most."""


def walk(title: str) -> list[str]:
    """The files of a walk, each once, in the order they are read."""
    found = re.search(rf"\*\*{re.escape(title)}\*\* \(\d+ files\)\.(.*?)\n\n", TEXT, re.DOTALL)
    assert found, f"there is no walk {title!r}"
    return list(dict.fromkeys(re.findall(r"`([\w/]+\.py)`", found[1])))


@pytest.mark.parametrize("title", LONGEST)
def test_a_walk_names_files_that_exist_and_counts_them_right(title: str) -> None:
    files = walk(title)
    assert [name for name in files if not (ROOT / "umiak" / name).is_file()] == []
    said = int(re.search(rf"\*\*{re.escape(title)}\*\* \((\d+) files\)", TEXT)[1])
    assert len(files) == said <= LONGEST[title]


def test_every_package_has_its_line() -> None:
    listed = set(re.findall(r"^\| `umiak/(\w+)/` \|", TEXT, re.MULTILINE))
    assert listed == {path.parent.name for path in (ROOT / "umiak").glob("*/__init__.py")}
