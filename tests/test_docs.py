"""The docs hold together: the site builds without a warning, every verb is in it, and links work in the repository's view too."""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

import umiak
from umiak.cli import main, paddle
from umiak.spec.settings import FLAGS

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path for path in ROOT.rglob("*.md") if not {".venv", "build", "node_modules", "out", "data"} & set(path.parts)
)
SOURCES = [path for path in PAGES if "tests" not in path.parts]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    out = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--quiet", "docs"]
    built = subprocess.run([sys.executable, *words, out], cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stdout + built.stderr
    return out


class _Page(HTMLParser):
    """What a page of the site leads to, and the places in it that others can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.places.add(str(found["id"]))
        for name in ("href", "src"):
            if found.get(name):
                self.links.append(str(found[name]))


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: _Page(path.read_text()) for path in site.rglob("*.html")}
    lost = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            file, _, place = link.partition("#")
            target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            if not target.exists() or (place and target in pages and unquote(place) not in pages[target].places):
                lost.append(f"{path.relative_to(site)}: {link}")
    assert len(pages) > 20
    assert lost == []


def test_every_verb_is_in_the_command_line_reference(site: Path) -> None:
    text = (site / "cli.html").read_text()
    places = _Page(text).places
    missing = [verb for verb in main.VERBS if f"umiak-{verb}" not in places]
    missing += [f"paddle {each}" for each in paddle.COMMANDS if f"umiak-paddle-{each.replace('_', '-')}" not in places]
    assert missing == []
    for place in ("umiak-job-submit", "umiak-cluster-up", "umiak-data-split"):
        assert place in places
    # Flags of every parser, and of the verbs that share one table of flags.
    flags = {word for verb in main.VERBS for word in _flags(importlib.import_module(f"umiak.cli.{verb}"))}
    flags |= {
        f"--{name.replace('_', '-')}" for name, flag in FLAGS.items() if flag.verbs == () or "train" in flag.verbs
    }
    assert len(flags) > 80
    assert [flag for flag in sorted(flags) if flag not in text] == []


def _flags(module: ModuleType) -> Iterator[str]:
    waiting = [module._parser()] if hasattr(module, "_parser") else []
    while waiting:
        for action in waiting.pop()._actions:
            yield from (word for word in action.option_strings if word not in ("-h", "--help"))
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()


def test_the_search_of_the_site_knows_the_public_names(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    for name in ("SparseEmbedding", "config_arg", "batch_provider", "FTRL"):
        assert name in index


def test_every_public_name_is_in_the_api_reference(site: Path) -> None:
    places = _Page((site / "api.html").read_text()).places
    public = [f"umiak.{name}" for name in umiak.__all__ if name not in ("data", "nn")]
    public += [f"umiak.nn.{name}" for name in umiak.nn.__all__] + [f"umiak.data.{name}" for name in umiak.data.__all__]
    # A shard is documented where a data source takes it.
    assert [name for name in public if name not in places and name != "umiak.Shard"] == []


def _anchors(path: Path) -> set[str]:
    """The places in a Markdown file that a link can name, as repository hosts and MyST make them from headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_in_the_repository_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, place = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (place and target.suffix == ".md" and place not in _anchors(target)):
            lost.append(link)
    assert lost == []


def test_pictures_are_small() -> None:
    large = [
        path.name
        for path in (ROOT / "docs").rglob("*")
        if path.suffix in (".png", ".svg") and path.stat().st_size > 180_000
    ]
    assert large == []
