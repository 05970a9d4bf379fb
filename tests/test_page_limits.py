"""The page and runs that are damaged, half written, huge or many: it says so, and keeps working."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.page_figures import write_run
from tests.test_page_server import PASS, lines, make_run, rounds
from umiak.page import cache, index, jsonlines, kept
from umiak.page.index import Index
from umiak.page.rundirectory import RunDirectory

pytestmark = pytest.mark.slow

ODD: list[Any] = [None, True, -1, 0, 7, 1.5, 1e400, float("nan"), 10**30, "", "7", "x" * 50, [], [1], {}, {"a": 1}]
KINDS = ["round", "pass", "work", "processes", "phase", "baseline", "start", "restart", "checkpoint", "failed", "done"]
KEYS = [
    "pass",
    "round",
    "batch",
    "cost",
    "samples_per_s",
    "samples",
    "train",
    "test",
    "tables",
    "services",
    "seconds",
    "worker",
    "rounds",
    "computing",
    "waiting",
    "transfer",
    "data",
    "bytes_sent",
    "bytes_received",
    "processes",
    "phase",
    "baseline",
    "workers",
    "cause",
    "message",
    "text",
    "path",
    "role",
    "code",
    "log",
    "reason",
]

TIME = {"time": "2026-11-18T12:00:00.000Z"}
WORK = {
    "worker": 1,
    "round": 5,
    "rounds": 2,
    "seconds": 2.0,
    "computing": 1.0,
    "waiting": 0.5,
    "transfer": 0.25,
    "data": 0.25,
}
EVENTS = rounds(10) + lines(
    {"event": "start", "workers": 2, **TIME},
    {"event": "phase", "worker": 1, "phase": "training", **TIME},
    {"event": "work", "bytes_sent": 5, "bytes_received": 6, **WORK, **TIME},
    {"event": "processes", "worker": 1, "processes": {"trainer": {"memory": 1e9, "cpu": 0.9}}, **TIME},
    {"event": "checkpoint", "round": 4, "path": "x", **TIME},
    {"event": "restart", "worker": 1, "generation": 1, "cause": "killed", **TIME},
    {**PASS, **TIME},
)


def listed(path: Path, **more: Any) -> Index:
    made = Index([path], **more)
    made.refresh()
    return made


def json_of(run: RunDirectory) -> str:
    """As the server would send it; a value that JSON has not is an error."""
    detail = run.detail(set())
    parts = [
        run.curves.part(each["name"], axis, None, None, 100) for each in detail["series"] for axis in ("round", "time")
    ]
    return json.dumps([detail, parts], allow_nan=False)


@pytest.mark.parametrize("seed", range(20))
def test_no_line_that_anybody_could_write_breaks_the_page(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)

    def event() -> dict[str, Any]:
        made = {"event": draw.choice(KINDS), "time": draw.choice(["2026-11-18T12:00:00.000Z", "never", 5, None])}
        for key in draw.sample(KEYS, draw.randint(0, len(KEYS))):
            made[key] = draw.choice(ODD)
        return made

    text = rounds(5) + lines(PASS, *(event() for _ in range(300)), PASS)
    run = make_run(tmp_path / "run", text)
    (run / "events.jsonl").write_text(text)
    (run / "run.json").write_text(
        json.dumps({key: draw.choice(ODD) for key in ("flags", "config", "outline", "workers")})
    )
    (run / "job.json").write_text(json.dumps(draw.choice(ODD)))
    (run / "price.json").write_text(json.dumps({"dollars_per_hour": draw.choice(ODD), "text": draw.choice(ODD)}))
    found = listed(tmp_path)
    json.dumps(list(found.runs.values()), allow_nan=False)
    assert json_of(found.all()[0]) and found.runs[found.all()[0].id]["passes"]


def test_half_written_runs_are_listed_with_what_they_have(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "run.json").write_text("")
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "run.json").write_text('{"seed": 7, "wor')
    (tmp_path / "cut" / "metrics.jsonl").write_text(rounds(3) + '{"event": "round", "pass": 0, "ba')
    (tmp_path / "cut" / "pass-00000").mkdir()
    (tmp_path / "cut" / "checkpoints" / "round-0000000003-0000").mkdir(parents=True)
    (tmp_path / "cut" / "checkpoints" / "round-0000000003-0000" / "manifest.json").write_text('{"pieces": [{')
    found = listed(tmp_path)
    runs = {run.name: run for run in found.all()}
    assert set(runs) == {"empty", "cut"}
    detail = runs["cut"].detail(set())
    assert detail["run"]["round"] == 2 and detail["run"]["problem"] is None
    assert detail["snapshots"] == [] and detail["checkpoints"] == []
    assert json_of(runs["empty"])
    # The rest of the line arrives.
    with (tmp_path / "cut" / "metrics.jsonl").open("a") as file:
        file.write('tch": 3, "round": 3, "cost": 1, "samples_per_s": 1}\n')
    runs["cut"].refresh()
    assert runs["cut"].run(set())["round"] == 3


def test_a_line_without_an_end_takes_no_memory_and_the_next_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonlines, "LONGEST", 1000)
    monkeypatch.setattr(jsonlines, "CHUNK", 500)
    run = make_run(tmp_path / "run", rounds(2) + "x" * 20_000 + "\n" + rounds(9, 2))
    found = listed(tmp_path).all()[0]
    assert found.path == run and found.run(set())["round"] == 8
    assert "damaged lines were passed over" in str(found.run(set())["problem"])


@pytest.mark.parametrize("name", ["metrics.jsonl", "run.json", "job.json", "price.json", "job.log"])
def test_a_pipe_in_place_of_a_file_does_not_hold_up_the_page(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "run")
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    (run / "checkpoints" / "round-0000000003-0000").mkdir(parents=True)
    os.mkfifo(run / "checkpoints" / "round-0000000003-0000" / "manifest.json")
    (run / "events.jsonl").write_text(rounds(4))
    assert json_of(listed(tmp_path).all()[0])


def test_one_run_among_ten_thousand_directories_is_found(tmp_path: Path) -> None:
    for number in range(10_000):
        (tmp_path / f"{number // 100}" / f"{number % 100}").mkdir(parents=True)
    make_run(tmp_path / "50" / "run")
    found = listed(tmp_path)
    assert [run.name for run in found.all()] == ["50/run"] and found.problems == []


def test_a_directory_that_cannot_be_read_is_a_problem_and_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    scandir = os.scandir

    def refused(path: Any) -> Any:
        if str(path).endswith("bad"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(index.os, "scandir", refused)
    found = listed(tmp_path)
    assert len(found.runs) == 1 and found.problems == [f"{tmp_path / 'bad'}: Permission denied"]


def test_a_new_server_reads_no_run_again_unless_a_file_of_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write_run(tmp_path / "runs" / str(number), 20, seed=number)
    first = listed(tmp_path / "runs", cache=tmp_path / "cache")
    with (tmp_path / "runs" / "1" / "metrics.jsonl").open("a") as file:
        file.write(rounds(31, 30))
    read: list[str] = []
    refresh = RunDirectory.refresh
    monkeypatch.setattr(RunDirectory, "refresh", lambda self, limit: read.append(self.name) or refresh(self, limit))
    again = listed(tmp_path / "runs", cache=tmp_path / "cache")
    assert read == ["1"]
    same = {name for name in first.runs if first.runs[name] == again.runs[name]}
    assert len(same) == 2 and {run["round"] for run in again.runs.values()} == {20, 30}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', '{"x": [[], {}]}', "\x00"])
def test_a_damaged_cache_is_no_cache(tmp_path: Path, text: str) -> None:
    make_run(tmp_path / "runs" / "one")
    listed(tmp_path / "runs", cache=tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.write_text(text)
    assert len(listed(tmp_path / "runs", cache=tmp_path / "cache").runs) == 1


def test_a_cache_that_cannot_be_written_is_no_harm(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    (tmp_path / "cache").write_text("a file")
    assert len(listed(tmp_path / "runs", cache=tmp_path / "cache").runs) == 1


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.directory() == Path("/somewhere/umiak/page")


def test_what_a_long_file_told_is_kept_and_what_it_tells_since_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "LEAST_BYTES", 1000)
    run = make_run(tmp_path / "runs" / "one")
    (run / "events.jsonl").write_text(EVENTS)
    first = listed(tmp_path / "runs", cache=tmp_path / "cache").all()[0]
    told = json_of(first)
    assert {path.name for path in (tmp_path / "cache").glob("*.npz")} == {
        f"{first.id}-metrics.jsonl.npz",
        f"{first.id}-events.jsonl.npz",
    }
    parsed: list[int] = []
    parse = jsonlines.parse
    monkeypatch.setattr(jsonlines, "parse", lambda given: parsed.append(len(given)) or parse(given))
    again = listed(tmp_path / "runs", cache=tmp_path / "cache").all()[0]
    again.refresh()
    assert json_of(again) == told and parsed == []
    with (run / "events.jsonl").open("a") as file:
        file.write(rounds(31, 30))
    later = listed(tmp_path / "runs", cache=tmp_path / "cache").all()[0]
    assert later.run(set())["round"] == 30 and parsed == [1]
    # Another file of the same name and length is another file.
    (run / "new").write_text((run / "events.jsonl").read_text().replace('"cost"', '"c0st"'))
    (run / "new").rename(run / "events.jsonl")
    assert "damaged" in str(listed(tmp_path / "runs", cache=tmp_path / "cache").all()[0].run(set())["problem"])
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b"PK\x03\x04 no")
    assert json_of(listed(tmp_path / "runs", cache=tmp_path / "cache").all()[0])


def test_curves_that_nobody_looks_at_are_forgotten_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MOST_BYTES", 1000)
    for number in range(4):
        write_run(tmp_path / str(number), 200, seed=number)
    found = listed(tmp_path)
    assert sum(run.bytes > 0 for run in found.all()) == 1
    for run in found.all():
        run.refresh()
        part = run.curves.part("cost", "round", None, None, 100)
        assert part is not None and part["points"] == 200
