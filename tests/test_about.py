"""OUT/run.json: what a run was started with."""

from __future__ import annotations

import json
from pathlib import Path

from tests.processes import TINY, umiak
from umiak.spec.flags import parse, written


def test_the_flags_of_a_run_give_its_settings_again() -> None:
    words = ["c.py", "--workers=2", "--tls=certs", "--config_args", "a=1,b=x", "--save_only_one", "--mode", "async"]
    settings = parse("train", words)
    again = [f"--{name}={value}" for name, value in written(settings).items()]
    assert parse("train", again) == settings


def test_a_run_says_what_it_was_started_with(tmp_path: Path) -> None:
    out = tmp_path / "out"
    umiak("train", TINY, "--workers", "2", "--passes", "1", "--seed", "7", "--out", out)
    about = json.loads((out / "run.json").read_text())
    assert (about["seed"], about["workers"], about["config"]) == (7, 2, str(TINY))
    assert about["config_text"] == TINY.read_text()
    assert about["flags"] | {"save_dir": ""} == {
        "config": str(TINY),
        "workers": "2",
        "num_passes": "1",
        "seed": "7",
        "save_dir": "",
    }
