"""metrics.jsonl and TensorBoard events: what is written can be read back, and a restart leaves no line twice."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import struct
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event

from umiak.messages.events import Pass, Round
from umiak.trainer.records import Curves


def scalars(directory: Path) -> dict[tuple[str, int], float]:
    """All scalars of the event files of a directory, by tag and step."""
    found = {}
    for path in sorted(directory.glob("events.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + size])
            at += 12 + size + 4
            for value in event.summary.value:
                found[value.tag, event.step] = round(value.simple_value, 6)
    return found


def round_event(number: int) -> Round:
    return Round(0, number, number, cost=number / 2, samples_per_s=10.0)


def test_curves_reach_both_files(tmp_path: Path) -> None:
    curves = Curves(tmp_path, 0)
    curves.write(round_event(1))
    curves.write(Pass(0, 2, 8, {"cost": 0.25}, {"cost": 0.5, "rmse": 0.75}))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["round", "pass"]
    read = scalars(tmp_path / "tensorboard")
    assert read["round/cost", 1] == 0.5
    assert (read["train/cost", 2], read["test/cost", 2], read["test/rmse", 2]) == (0.25, 0.5, 0.75)


def test_a_restart_forgets_what_lies_past_its_checkpoint(tmp_path: Path) -> None:
    curves = Curves(tmp_path, 0)
    for number in (1, 2, 3, 4):
        curves.write(round_event(number))
    (tmp_path / "metrics.jsonl").write_text((tmp_path / "metrics.jsonl").read_text() + '{"event": "rou')
    curves = Curves(tmp_path, 2)
    curves.write(round_event(3))
    rounds = [json.loads(line)["round"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rounds == [1, 2, 3]


def test_a_kill_while_the_end_is_cut_off_loses_no_line(tmp_path: Path) -> None:
    """Whoever writes more than a few bytes to any file is killed in that very call, as kill -9 might."""
    curves = Curves(tmp_path, 0)
    for number in (1, 2, 3, 4):
        curves.write(round_event(number))
    before = (tmp_path / "metrics.jsonl").read_bytes()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            Curves(tmp_path, 2)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGXFSZ
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_a_volume_that_fails_for_a_moment_garbles_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of every second write arrives, then the volume fails; a real one does that too seldom for a test."""
    real, calls = Path.open, []

    class Flaky:
        def __init__(self, file: object) -> None:
            self.file = file

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

        def __enter__(self) -> Flaky:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()  # type: ignore[attr-defined]

        def write(self, data: bytes) -> int:
            calls.append(1)
            if len(calls) % 2:
                self.file.write(data[: len(data) // 2])  # type: ignore[attr-defined]
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return self.file.write(data)  # type: ignore[attr-defined,no-any-return]

    def opened(path: Path, mode: str = "r", *rest: object, **more: object) -> object:
        file = real(path, mode, *rest, **more)  # type: ignore[call-overload]
        return Flaky(file) if mode == "ab" else file

    monkeypatch.setattr(Path, "open", opened)
    curves = Curves(tmp_path, 0)
    for number in (1, 2, 3):
        curves.write(round_event(number))
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [1, 2, 3]
    assert scalars(tmp_path / "tensorboard")["round/cost", 3] == 1.5
