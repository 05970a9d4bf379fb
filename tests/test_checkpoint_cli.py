"""`umiak checkpoint`: what people see of checkpoints, of whole, unfinished and damaged ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.processes import umiak
from umiak.cli import checkpoint
from umiak.cli.main import main
from umiak.errors import InputError

TINY = Path(__file__).with_name("tiny.py")
EARLIER = Path(__file__).with_name("fixtures") / "run_before_house" / "output"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("checkpoint") / "run"
    umiak("train", TINY, "--local", "--passes", "2", "--out", out)
    return out


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def said(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    assert checkpoint.run([str(word) for word in words]) == code
    return capsys.readouterr().out


def newest(run: Path) -> Path:
    return max((run / "checkpoints").glob("round-*"))


def test_checkpoints_are_listed_with_what_a_resumed_run_would_begin_with(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "ls", run).splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["round-0000000063-0000", "round-0000000126-0000"]
    assert lines[2] == "a resumed run begins at round 126"
    (newest(run) / "manifest.json").rename(newest(run) / "manifest.damaged")
    unfinished = run / "checkpoints" / "round-0000000130-0000"
    unfinished.mkdir()
    text = said(capsys, "ls", run)
    assert "found damaged before" in text and "being written" in text
    assert text.endswith("a resumed run begins at round 63\n")
    listed = json.loads(said(capsys, "ls", run, "--json"))
    assert [(each["round"], each["problem"] is None) for each in listed] == [(63, True), (126, False), (130, False)]
    assert listed[0]["bytes"] > 0 and listed[0]["samples"] == 1000


def test_one_checkpoint_is_shown_by_round_by_directory_or_as_the_newest(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "show", run)
    assert "user.weight: 50 rows of 8" in text and "item.weight: open, rows of 8" in text
    assert "service-0.safetensors" in text and "crc32" in text
    assert said(capsys, "show", newest(run)) == text
    first = said(capsys, "show", run, "--round", 63)
    assert "round-0000000063-0000" in first
    with pytest.raises(InputError, match="has no checkpoint of round 7: it has those of 63, 126"):
        checkpoint.run(["show", str(run), "--round", "7"])


def test_a_changed_or_missing_file_is_named_and_nothing_is_changed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "verify", run).endswith("is whole\n")
    piece = newest(run) / "service-0.safetensors"
    data = bytearray(piece.read_bytes())
    data[-1] ^= 1
    piece.write_bytes(data)
    text = said(capsys, "verify", run, code=1)
    assert f"{piece} is damaged" in text and "uses the checkpoint before it" in text
    assert (newest(run) / "manifest.json").exists(), "looking decides nothing"
    piece.write_bytes(data[:-1])
    assert f"{len(data) - 1} bytes where {len(data)} were written" in said(capsys, "verify", run, code=1)
    assert said(capsys, "verify", run, "--round", 63).endswith("is whole\n")


def test_checkpoints_of_an_earlier_version_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "a resumed run begins at round" in said(capsys, "ls", EARLIER)
    assert said(capsys, "verify", EARLIER).endswith("is whole\n")


def test_a_directory_without_checkpoints_is_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("ls", tmp_path), ("show", tmp_path), ("verify", tmp_path / "nothing")):
        assert main(["checkpoint", *map(str, words)]) == 2
        assert str(tmp_path) in capsys.readouterr().err
