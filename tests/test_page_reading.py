"""Curves of the page: few points that hide nothing, and files that are cut and written anew while they are read."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from tests.page_figures import write_run
from umiak.page import jsonlines
from umiak.page.columns import Columns, reduced
from umiak.page.history import History
from umiak.page.index import Index
from umiak.page.logfile import Question, lines
from umiak.page.rundirectory import RunDirectory

TIME = "2026-11-18T12:00:{:06.3f}Z"


def test_a_million_points_become_four_a_pixel_and_no_peak_is_lost() -> None:
    x, y = np.arange(1e6), np.zeros(1_000_000)
    y[123_456], y[654_321] = 7.0, -7.0
    y[500_000] = np.nan
    few_x, few_y = reduced(x, y, 800)
    assert len(few_x) <= 4 * 800 and few_x[0] == 0 and few_x[-1] == 999_999
    assert 7.0 in few_y and -7.0 in few_y and np.all(np.diff(few_x) > 0)


def test_rows_that_go_back_replace_what_came_after() -> None:
    columns = Columns(("round", "cost"), "round")
    columns.append({"round": [0, 1, 2, 3, 2, 3, 4], "cost": [0, 1, 2, 3, 20, 30, 40]})
    assert columns["cost"].tolist() == [0, 1, 20, 30, 40]
    columns.append({"round": [1], "cost": [9]})
    assert columns["round"].tolist() == [0, 1] and columns["cost"].tolist() == [0, 9]


def test_a_file_that_a_restart_wrote_anew_is_read_anew(tmp_path: Path) -> None:
    def write(count: int, name: str) -> None:
        lines = [
            {"event": "round", "pass": 0, "batch": i, "round": i, "cost": i, "samples_per_s": 1} for i in range(count)
        ]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    write(9, "metrics.jsonl")
    run = RunDirectory(tmp_path, tmp_path, [tmp_path])
    assert run.refresh() and not run.refresh() and len(run.metrics.history.rounds) == 9
    write(4, "new")
    (tmp_path / "new").rename(tmp_path / "metrics.jsonl")
    assert run.refresh() and len(run.metrics.history.rounds) == 4


def test_a_log_is_opened_at_a_time_from_its_end_and_at_a_byte(tmp_path: Path) -> None:
    begun = datetime(2026, 11, 18, 12).timestamp()
    stamps = [datetime.fromtimestamp(begun + second).strftime("%m%d %H:%M:%S.%f") for second in range(20_000)]
    log = tmp_path / "train.log"
    log.write_text(
        "".join(f"I{stamp}    50 a.py:1] round {number}\n  more of it\n" for number, stamp in enumerate(stamps))
    )
    os.utime(log, (begun + 20_000, begun + 20_000))
    size = log.stat().st_size
    for second in (0, 1, 7_777, 12_345, 19_999):
        found = lines(log, [tmp_path], Question(time=begun + second))
        assert begun + second in [line["time"] for line in found["lines"]], second
    end = lines(log, [tmp_path])
    assert end["end"] == end["size"] == size and end["lines"][-2]["text"].endswith("round 19999")
    earlier = lines(log, [tmp_path], Question(before=end["start"]))
    assert earlier["end"] == end["start"]
    later = lines(log, [tmp_path], Question(start=earlier["start"]))
    assert later["lines"][0] == earlier["lines"][0]
    (only,) = lines(log, [tmp_path], Question(search="ROUND 19998"))["lines"]
    assert only["level"] == "I" and only["time"] == begun + 19_998
    assert lines(log, [tmp_path], Question(level="W"))["lines"] == []


def test_a_line_of_last_december_is_not_of_the_next_one(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("I1231 23:59:59.000000    50 a.py:1] the old year\n")
    new_year = datetime(2027, 1, 1, 0, 5).timestamp()
    os.utime(log, (new_year, new_year))
    assert lines(log, [tmp_path])["lines"][0]["time"] == datetime(2026, 12, 31, 23, 59, 59).timestamp()


def test_a_long_file_is_read_bit_by_bit_and_shown_as_far_as_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonlines, "CHUNK", 5000)
    write_run(tmp_path / "run", 1000)
    index = Index([tmp_path])
    index.patience = 0.0
    seen = []
    while not seen or index.all()[0].is_behind:
        index.refresh()
        seen.append(len(index.all()[0].metrics.history.rounds))
    assert len(seen) > 10 and seen == sorted(seen) and seen[0] < 100 and seen[-1] == 1000
    whole = RunDirectory(tmp_path / "run", tmp_path, [tmp_path])
    whole.refresh()
    assert whole.curves.part("cost", "round", None, None, 9) == index.all()[0].curves.part(
        "cost", "round", None, None, 9
    )


@pytest.mark.parametrize(("in_pods", "said"), [(False, "--resume"), (True, "`umiak job delete` the job")])
def test_a_run_that_was_pulled_has_the_advice_of_its_cluster(tmp_path: Path, in_pods: bool, said: str) -> None:
    failed = {"event": "failed", "message": "no column", "code": 2, "worker": 1, "role": "trainer", "log": "KeyError"}
    (tmp_path / "events.jsonl").write_text(json.dumps({**failed, "time": TIME.format(1)}) + "\n")
    if in_pods:
        (tmp_path / "job.json").write_text('{"uid": "x", "released": true}')
    run = RunDirectory(tmp_path, tmp_path, [tmp_path])
    run.refresh()
    failure = run.detail(set())["failure"]
    assert failure is not None and said in str(failure["advice"]) and failure["log"] == "KeyError"
    assert run.run(set())["state"] == "failed"


def test_what_a_restart_cost_is_the_time_until_the_run_was_where_it_had_been() -> None:
    def at(second: float, **event: object) -> dict[str, object]:
        return {**event, "time": TIME.format(second)}

    def round_at(second: float, number: int) -> dict[str, object]:
        return at(second, event="round", round=number, cost=1.0, samples_per_s=1.0, batch=0, **{"pass": 0})

    history = History()
    history.add([round_at(1, 10), round_at(2, 20), at(3, event="restart", generation=1, worker=1, cause="killed")])
    history.add([round_at(8, 15), round_at(10, 21)])
    assert history.lost == 7.0 and history.changes[0]["text"] == "killed"
