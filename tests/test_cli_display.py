"""A job's events on the screen: lines for a log, a picture for a terminal, and a summary that stays."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from umiak.display import screen
from umiak.display.progress import Progress, duration, number, spark
from umiak.evaluation import curves
from umiak.messages.events import (
    Baseline,
    Checkpoint,
    Done,
    Event,
    Notice,
    Pass,
    Phase,
    Restart,
    Round,
    Start,
    encode_line,
)

BASELINE = Baseline("user+item mean", "rmse", 0.9423)


def job(passes: int = 3, batches: int = 4) -> list[Event]:
    """What a job reports that loses a worker in its second pass."""
    events: list[Event] = [Start(workers=3, services=3, parameters=3812345, tables=6, out="out/demo", round=0)]
    events += [Phase(worker, "training") for worker in range(3)]
    for p in range(passes):
        for b in range(1, batches + 1):
            r = p * batches + b
            events.append(Round(p, b, r, cost=3 + 2 / r, samples_per_s=23456.7))
        if p == 1:
            events.append(Phase(1, "lost"))
            events.append(Restart(2, 1, "trainer of worker 1: killed"))
        train = {"cost": 3 + 2 / (p + 1), "rmse": 0.9 + 0.2 / (p + 1)}
        test = {"cost": 3.1 + 2 / (p + 1), "rmse": 0.92 + 0.2 / (p + 1) if p < 2 else 0.93}
        events.append(Pass(p, (p + 1) * batches, 1600, train, test, seconds=3.7))
        events.append(Checkpoint(f"out/demo/checkpoint-{p}", (p + 1) * batches))
    events.append(Notice("a [note] for the reader"))
    return [*events, Done(75.2, "out/demo/pass-00002", "out/demo/curves.png", (), BASELINE)]


def shown(events: list[Event], terminal: bool, width: int = 100) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, height=40, force_terminal=terminal, highlight=False, _environ={})
    with screen.display(console) as show:
        for event in events:
            show(event)
    return out.getvalue()


def test_a_log_gets_one_line_per_event_that_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "PLAIN_SECONDS", 0.0)
    lines = shown(job(), terminal=False).splitlines()
    assert lines[0] == "3 workers, 3 services, 3,812,345 parameters, 6 tables; output in out/demo"
    assert lines[1] == "pass 0  batch 1  23,457 samples/s  cost 5.0000"
    assert "pass 0 done in 3.7 s  train cost 5.0000 rmse 1.1000  test cost 5.1000 rmse 1.1200" in lines
    assert "trainer of worker 1: killed; continuing as generation 2" in lines
    assert "a [note] for the reader" in lines
    assert "\x1b" not in "".join(lines)


def test_a_log_is_not_flooded_by_rounds() -> None:
    assert "batch" not in shown(job(batches=500), terminal=False)


@pytest.mark.parametrize("terminal", [False, True])
def test_the_summary_holds_every_pass_beside_the_baseline_and_where_things_are(terminal: bool) -> None:
    text = shown(job(), terminal)
    tail = text[text.rindex("user+item mean rmse") :]
    assert tail.count("0.9423") == 4
    for part in ("1.1200", "1.0200", "0.9300", "best pass", "1 min 15 s", "out/demo/pass-00002", "out/demo/curves.png"):
        assert part in tail


def test_long_paths_stay_in_one_piece_for_copying() -> None:
    path = "/a/" + "long/" * 30 + "pass-00009"
    assert path in shown([*job()[:-1], Done(1.0, path, "", (), None)], terminal=True, width=60)


def test_notes_and_restarts_stay_on_a_terminal() -> None:
    text = shown(job()[:-1], terminal=True)
    assert text.count("continuing as generation 2") == 1
    assert "a [note] for the reader" in text


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("workers", [3, 200])
def test_the_live_picture_fits_the_terminal(width: int, workers: int) -> None:
    progress = Progress()
    events = job(passes=30)
    for event in [replace(events[0], workers=workers), *events[1:-6]]:
        progress.apply(event)
    console = Console(file=io.StringIO(), width=width, height=40, force_terminal=True, record=True, _environ={})
    console.print(screen.picture(progress))
    lines = console.export_text().splitlines()
    assert len(lines) <= 20
    assert all(len(line) <= width for line in lines)
    assert "restarts 1" in "\n".join(lines) or width == 60


def test_a_job_that_fails_leaves_the_terminal_usable_and_shows_what_it_reached() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, _environ={})
    with pytest.raises(RuntimeError), screen.display(console) as show:
        for event in job()[:-3]:
            show(event)
        raise RuntimeError
    hidden, visible = "\x1b[?25l", "\x1b[?25h"
    ended = out.getvalue().rindex(visible)
    assert ended > out.getvalue().rindex(hidden)
    assert "test rmse" in out.getvalue()[ended:]


def test_the_best_pass_of_an_auc_is_the_highest() -> None:
    progress = Progress(baseline=Baseline("guessing", "auc", 0.5))
    for p, auc in enumerate((0.6, 0.8, 0.7)):
        progress.apply(Pass(p, p, 1, {"cost": 1.0}, {"auc": auc}))
    assert progress.best() == (1, 0.8)


def test_a_resumed_run_shows_its_earlier_passes_too() -> None:
    events = job()
    passes = tuple(event for event in events if isinstance(event, Pass))
    text = shown([events[0], passes[-1], replace(events[-1], passes=passes)], terminal=False)
    assert all(value in text for value in ("1.1200", "1.0200", "0.9300"))


def test_workers_that_were_there_before_the_model_was_known_keep_their_phase() -> None:
    progress = Progress()
    progress.apply(Phase(0, "training"))
    progress.apply(job()[0])
    assert progress.phases == {0: "training", 1: "starting", 2: "starting"}


def test_the_length_of_a_pass_is_known_from_the_one_before() -> None:
    progress, lengths = Progress(), []
    for event in job(batches=4):
        progress.apply(event)
        if isinstance(event, Round) and event.batch == 1:
            lengths.append(progress.batches())
    assert lengths == [None, 4, 4]


def test_one_of_a_thing_is_not_many() -> None:
    start = replace(job()[0], workers=1, services=1, parameters=1, tables=0)
    assert screen.line(start) == "1 worker, 1 service, 1 parameter; output in out/demo"


def test_a_restart_that_repeats_a_pass_counts_it_once() -> None:
    progress = Progress()
    for cost in (2.0, 1.0):
        progress.apply(Pass(0, 1, 1, {"cost": cost}, None))
    assert [event.train["cost"] for event in progress.passes.values()] == [1.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.93841, "0.9384"), (12.3456, "12.346"), (0.0, "0.0000"), (1234567.0, "1.235e+06"), (math.nan, "nan")],
)
def test_metrics_have_five_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_times_and_curves_in_words() -> None:
    assert [duration(s) for s in (3.71, 75.2, 3725)] == ["3.7 s", "1 min 15 s", "1 h 02 min"]
    assert spark([0, 1, 2, 3, math.inf]) == "▁▃▆█"
    assert spark([1.0, 1.0]) == "▁▁"


def test_curves_are_drawn_from_a_log_that_ends_in_half_a_line(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    log.write_bytes(b"".join(map(encode_line, job())) + b'{"event": "ro')
    curves.draw(log, tmp_path / "curves.png")
    header = (tmp_path / "curves.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    assert int.from_bytes(header[16:20], "big") > int.from_bytes(header[20:24], "big")


def test_no_pass_no_picture(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(encode_line(job()[4]))
    curves.draw(tmp_path / "metrics.jsonl", tmp_path / "curves.png")
    assert not (tmp_path / "curves.png").exists()
