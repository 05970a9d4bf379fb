"""`umiak page --export`: one file that holds everything, leads nowhere and runs nothing but the page's own script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.test_page_server import PASS, lines, make_run, rounds
from umiak.cli.main import main
from umiak.page import built, export

SCRIPT = "const text = '</script><!--'; document.title = text;"
CSS = "body { color: red }"


@pytest.fixture(autouse=True)
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the built page, with what ends a script element too early."""
    made = tmp_path / "static"
    made.mkdir()
    for name, text in {"index.html": "<!doctype html>", "page.js": SCRIPT, "page.css": CSS}.items():
        (made / name).write_text(text)
    monkeypatch.setattr(built, "STATIC", made)


class Elements(HTMLParser):
    """The elements as a browser sees them: name, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.found[-1][2].append(data)

    def named(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, "".join(text)) for name, attributes, text in self.found if name == tag]


def written(path: Path) -> tuple[Elements, Any]:
    page = Elements(path.read_text())
    (data,) = [text for attributes, text in page.named("script") if attributes.get("id") == "umiak-data"]
    return page, json.loads(data)


def test_a_file_holds_the_curves_for_every_axis_and_no_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "runs" / "one")
    (run / "job.log").write_text("secret line\n")
    target = tmp_path / "page.html"
    assert main(["page", "--export", str(target), str(tmp_path / "runs")]) == 0
    assert capsys.readouterr().out.startswith(f"{target}: 1 run, 0.0 MB")
    _, data = written(target)
    (held,) = data["runs"]
    assert {(each["name"], each["axis"]) for each in held["series"]} >= {("cost", "round"), ("test/rmse", "pass")}
    assert held["detail"]["run"]["name"] == "one" and held["logs"] is None and held["detail"]["logs"] == []
    assert "secret line" not in target.read_text()


def test_logs_come_along_only_when_asked_for_and_secrets_never(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "one")
    (run / "job.log").write_text("I1116 09:10:17.123121    50 a.py:1] password=hunter2 ok\n")
    (run / "run.json").write_text(
        json.dumps({"flags": {"api_token": "abc123"}, "config_text": "password = 'hunter2'\n"})
    )
    (run / "events.jsonl").write_text(lines({"event": "failed", "message": "no access: token=abc123", "log": "hunter"}))
    target = tmp_path / "page.html"
    assert main(["page", "--export", str(target), "--with-logs", str(tmp_path / "runs")]) == 0
    text = target.read_text()
    _, data = written(target)
    assert data["runs"][0]["logs"]["job"]["lines"][0]["text"].endswith("password=••• ok")
    assert "hunter2" not in text and "abc123" not in text and "\\u2022" in text
    assert main(["page", "--export", str(target), "--overwrite", str(tmp_path / "runs")]) == 0
    assert written(target)[1]["runs"][0]["detail"]["failure"]["log"] == ""


def test_names_are_data_and_nothing_else_is_a_script(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "<script>alert(1)<" / "script>&\u2028")
    target = tmp_path / "page.html"
    assert main(["page", "--export", str(target), str(tmp_path / "runs")]) == 0
    page, data = written(target)
    assert data["runs"][0]["detail"]["run"]["name"] == "<script>alert(1)</script>&\u2028"
    scripts = page.named("script")
    assert len(scripts) == 2 and scripts[1][1] == SCRIPT.replace("</", "<\\/").replace("<!--", "\\x3c!--")
    assert len(page.named("style")) == 1 and not any({"src", "href"} & set(each[1]) for each in page.found)


def test_the_policy_allows_this_script_and_this_style_and_nothing_else(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    target = tmp_path / "page.html"
    assert main(["page", "--export", str(target), str(tmp_path / "runs")]) == 0
    page, _ = written(target)
    policy = next(str(a["content"]) for a, _ in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy")
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (page.named("script")[1][1], page.named("style")[0][1])
    ]
    assert re.findall(r"'sha256-([^']*)'", policy) == hashes
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy and "self" not in policy


def test_an_existing_file_stays_unless_overwriting_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "runs" / "one")
    target = tmp_path / "page.html"
    target.write_text("mine")
    assert main(["page", "--export", str(target), str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err == f"umiak: {target} exists: choose another name, or add --overwrite\n"
    assert target.read_text() == "mine"
    assert main(["page", "--export", str(target), "--overwrite", str(tmp_path / "runs")]) == 0
    assert "umiak-data" in target.read_text()


def test_a_long_run_is_thinned_until_the_file_is_small_and_no_peak_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peak = {"event": "round", "pass": 0, "batch": 0, "round": 20_000, "cost": 99.0, "samples_per_s": 1.0}
    make_run(tmp_path / "runs" / "one", rounds(20_000) + lines(peak, {**PASS, "round": 20_001}))
    target = tmp_path / "page.html"
    monkeypatch.setattr(export, "MOST_BYTES", 60_000)
    assert main(["page", "--export", str(target), str(tmp_path / "runs")]) == 0
    assert target.stat().st_size <= 60_000
    _, data = written(target)
    cost = next(each for each in data["runs"][0]["series"] if (each["name"], each["axis"]) == ("cost", "round"))
    assert max(cost["y"]) == 99.0 and cost["points"] == 20_001


def test_what_cannot_fit_is_one_line_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "runs" / "one")
    monkeypatch.setattr(export, "MOST_BYTES", 5000)
    assert main(["page", "--export", str(tmp_path / "page.html"), str(tmp_path / "runs")]) == 2
    assert "name the directories of fewer runs" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(("page", ".page"))] == []


def test_no_runs_and_flags_without_export_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["page", "--export", str(tmp_path / "page.html"), str(tmp_path)]) == 2
    assert "there are no runs below" in capsys.readouterr().err
    assert main(["page", "--with-logs"]) == 2
    assert "belong to --export" in capsys.readouterr().err
