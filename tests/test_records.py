"""metrics.jsonl and TensorBoard events: what is written can be read back, and a restart leaves no line twice."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event

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


def round_event(number: int) -> dict[str, object]:
    return {"event": "round", "pass": 0, "round": number, "cost": number / 2, "samples_per_s": 10.0}


def test_curves_reach_both_files(tmp_path: Path) -> None:
    curves = Curves(tmp_path, 0)
    curves.write(round_event(1))
    curves.write({"event": "pass", "pass": 0, "round": 2, "train": {"cost": 0.25}, "test": {"cost": 0.5, "rmse": 0.75}})
    curves.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["round", "pass"]
    read = scalars(tmp_path / "tensorboard")
    assert read["round/cost", 1] == 0.5
    assert (read["train/cost", 2], read["test/cost", 2], read["test/rmse", 2]) == (0.25, 0.5, 0.75)


def test_a_restart_forgets_what_lies_past_its_checkpoint(tmp_path: Path) -> None:
    curves = Curves(tmp_path, 0)
    for number in (1, 2, 3, 4):
        curves.write(round_event(number))
    curves.close()
    (tmp_path / "metrics.jsonl").write_text((tmp_path / "metrics.jsonl").read_text() + '{"event": "rou')
    curves = Curves(tmp_path, 2)
    curves.write(round_event(3))
    curves.close()
    rounds = [json.loads(line)["round"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rounds == [1, 2, 3]
