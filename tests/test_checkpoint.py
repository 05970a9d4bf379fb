"""Which checkpoint a run resumes from, and that it never begins again by itself once it had one."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import umiak
from tests.trainers import server, train
from umiak import files
from umiak.data.columns import Columns
from umiak.errors import DamagedError, InputError, RetryError, StorageError
from umiak.messages.events import Alive, Event, Start
from umiak.rundir import checkpoint, prepare, reader
from umiak.rundir.checkpoint import MANIFEST, directory_for
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.trainer.run import run
from umiak.trainer.task import Assignment

draw = np.random.default_rng(5)
DATA = Columns({"x": draw.standard_normal((96, 3)).astype(np.float32), "id": draw.integers(0, 99, 96)})


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.table = umiak.nn.SparseEmbedding(3)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return (batch["x"] * (self.weight + self.table(batch["id"]))).sum(1)


JOB = umiak.Config(
    model=Model,
    train=DATA,
    loss=lambda output, batch: (output**2).mean(),
    optimizer=umiak.Adam(0.1),
    batch_size=16,
)


def commit(out: Path, name: str) -> Path:
    directory = out / "checkpoints" / name
    directory.mkdir(parents=True)
    (directory / MANIFEST).write_text("{}")
    return directory


def tree(out: Path, pattern: str = "*") -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob(pattern)) if path.is_file()}


def snapshots(out: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(out).items() if name.startswith("pass-")}


def test_the_newest_round_counts_and_of_equal_ones_the_latest_generation(tmp_path: Path) -> None:
    commit(tmp_path, "round-0000000009")
    newest = commit(tmp_path, directory_for(tmp_path, 20, 3).name)
    commit(tmp_path, directory_for(tmp_path, 20, 1).name)
    directory_for(tmp_path, 30, 3).mkdir()
    assert checkpoint.select(tmp_path) == newest
    assert checkpoint.select(tmp_path, 9) == tmp_path / "checkpoints/round-0000000009"
    with pytest.raises(InputError, match="no checkpoint of round 10: it has those of 9, 20"):
        checkpoint.select(tmp_path, 10)


def test_a_job_killed_in_its_very_first_checkpoint_begins_again(tmp_path: Path) -> None:
    assert checkpoint.select(tmp_path) is None
    directory_for(tmp_path, 7, 0).mkdir(parents=True)
    assert checkpoint.select(tmp_path) is None
    checkpoint.remove_unfinished(tmp_path)
    assert not directory_for(tmp_path, 7, 0).exists()
    assert checkpoint.select(tmp_path) is None


def test_a_run_that_had_a_checkpoint_never_begins_again_by_itself(tmp_path: Path) -> None:
    train(JOB, tmp_path)
    for directory in (tmp_path / "checkpoints").glob("round-*"):
        shutil.rmtree(directory)
    with pytest.raises(InputError, match=r"has had checkpoints, and none of them is whole.*--overwrite"):
        checkpoint.select(tmp_path)


def test_a_directory_of_version_0_1_0_counts_as_a_checkpoint_that_was_there(tmp_path: Path) -> None:
    """It left no mark, so a directory without a manifest is all that may be left of its progress."""
    old = tmp_path / "checkpoints/round-0000000012"
    old.mkdir(parents=True)
    checkpoint.remove_unfinished(tmp_path)
    assert old.exists()
    with pytest.raises(InputError, match=r"round-0000000012 \(without a manifest\)"):
        checkpoint.select(tmp_path)
    commit(tmp_path, "round-0000000024")
    checkpoint.remove_unfinished(tmp_path)
    assert not old.exists(), "now the mark says that there was one"


def test_if_all_are_damaged_the_user_decides(tmp_path: Path) -> None:
    out = tmp_path / "out"
    train(JOB, out, num_passes=2)
    for piece in out.glob("checkpoints/round-*/service-0.safetensors"):
        piece.write_bytes(piece.read_bytes()[:-1] + b"?")
    for _ in range(2):
        with pytest.raises(DamagedError, match="checksum"):
            train(JOB, out, num_passes=3, resume=True)
    before = tree(out)
    with pytest.raises(InputError, match=r"none of them is whole: round-.* \(damaged\)"):
        train(JOB, out, num_passes=3, resume=True)
    assert tree(out) == before


def test_a_manifest_that_is_no_json_is_damage_and_the_one_before_it_is_used(tmp_path: Path) -> None:
    train(JOB, tmp_path / "whole", num_passes=3)
    train(JOB, tmp_path / "out", num_passes=2)
    newest = checkpoint.select(tmp_path / "out")
    assert newest is not None
    (newest / MANIFEST).write_bytes((newest / MANIFEST).read_bytes()[:100])
    with pytest.raises(DamagedError, match=MANIFEST):
        train(JOB, tmp_path / "out", num_passes=3, resume=True)
    train(JOB, tmp_path / "out", num_passes=3, resume=True)
    assert snapshots(tmp_path / "out") == snapshots(tmp_path / "whole")


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_volume_that_cannot_be_read_changes_nothing_and_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    train(JOB, tmp_path / "whole", num_passes=3)
    out = tmp_path / "out"
    train(JOB, out, num_passes=2)
    before = tree(out)
    newest, older = checkpoint.select(out), checkpoint.committed(out)[0]

    def opened(path: Path, missing_seconds: float) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as volume:
        volume.setattr(reader, "_opened", opened)
        volume.setattr(files, "STORAGE_SECONDS", 0.2)
        with pytest.raises(StorageError, match=f"{newest}/service-0.*--resume --resume_round {older.round} ") as caught:
            train(JOB, out, num_passes=3, resume=True)
    assert caught.value.exit_code == 75
    assert tree(out) == before, "a good checkpoint stays one, and no curve is cut"
    train(JOB, out, num_passes=3, resume=True)
    assert snapshots(out) == snapshots(tmp_path / "whole")


def test_a_directory_that_cannot_be_listed_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(tmp_path, "round-0000000009-0000")

    def iterdir(path: Path) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(Path, "iterdir", iterdir)
    monkeypatch.setattr(files, "STORAGE_SECONDS", 0.1)
    with pytest.raises(StorageError, match="checkpoints"):
        checkpoint.select(tmp_path)


def test_resume_round_goes_on_from_an_older_checkpoint_and_deletes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    train(JOB, tmp_path / "whole", num_passes=3)
    train(JOB, out, num_passes=2)
    older, newer = checkpoint.committed(out)
    pieces = {path.name: path.read_bytes() for path in newer.path.iterdir()}
    for wrong, words in ({"resume": False}, "goes with --resume"), ({"resume_round": 5}, "no checkpoint of round 5"):
        with pytest.raises(InputError, match=words):
            train(JOB, out, num_passes=3, **{"resume": True, "resume_round": older.round, **wrong})
    assert checkpoint.committed(out) == [older, newer]
    capsys.readouterr()
    train(JOB, out, num_passes=3, resume=True, resume_round=older.round)
    before, after = capsys.readouterr().out.splitlines()
    assert f"setting aside newer checkpoints of {out}: {newer.path.name}" in before
    assert f"set aside in {out}/checkpoints: aside-{newer.path.name}" in after
    aside = out / "checkpoints" / f"aside-{newer.path.name}"
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == pieces
    assert snapshots(out) == snapshots(tmp_path / "whole")


def test_resume_round_is_a_way_past_a_checkpoint_that_cannot_even_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    train(JOB, out, num_passes=2)
    older, newer = checkpoint.committed(out)
    real = Path.stat

    def stat(path: Path, **how: bool) -> os.stat_result:
        if path.is_relative_to(newer.path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, **how)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(files, "STORAGE_SECONDS", 0.1)
    with pytest.raises(StorageError, match=f"{newer.path}.*--resume_round {older.round} "):
        train(JOB, out, num_passes=3, resume=True)
    prepare.carry_out(prepare.decide(Settings(save_dir=out, resume=True, resume_round=older.round)), print)
    assert (out / "checkpoints" / f"aside-{newer.path.name}").is_dir()
    assert checkpoint.select(out) == older.path


def test_only_the_owner_of_a_run_commits_marks_or_cuts(tmp_path: Path) -> None:
    """A trainer of generation 0 whose run was taken over meanwhile: it ends with 75 and leaves everything as it is."""
    out = tmp_path / "out"
    train(JOB, out, num_passes=2)
    (out / "generations").mkdir()
    (out / "generations/0000000001").write_text("{}")
    newest = checkpoint.select(out)
    assert newest is not None
    piece = newest / "service-0.safetensors"
    before = tree(out)
    with pytest.raises(RetryError, match="taken over"):
        train(JOB, out, num_passes=3, resume=True)
    assert tree(out) == before
    piece.write_bytes(piece.read_bytes()[:-1] + b"?")
    before = tree(out)
    with pytest.raises(RetryError, match="taken over"):
        train(JOB, out, num_passes=3, resume=True)
    assert tree(out) == before


def test_a_trainer_that_was_told_another_checkpoint_than_the_servers_does_not_train(tmp_path: Path) -> None:
    out = tmp_path / "out"
    problems: dict[int, Exception] = {}
    with server(2) as two:
        train(JOB, out, two, num_passes=2)
        older, newer = checkpoint.committed(out)
        settings = Settings(num_passes=3, dot_period=0, save_dir=out, resume=True)

        def trainer(index: int) -> None:
            told = (newer.path, older.path)[index]
            assignment = Assignment(index, 2, services=two.services, out=out, checkpoint=told)
            try:
                run(Loaded(JOB), settings, assignment, lambda event: None, lambda: False)
            except Exception as error:
                problems[index] = error

        two.run(trainer)
    assert f"a service is at round {newer.round}, but this trainer resumes from {older.path}" in str(problems[1])
    assert {error.exit_code for error in problems.values() if isinstance(error, RetryError)} == {75}
    assert checkpoint.committed(out) == [older, newer]


def test_a_trainer_says_its_round_before_the_first_one(tmp_path: Path) -> None:
    """A failure in the very first round then has a round to be counted by."""
    told = train(JOB, tmp_path)
    assert isinstance(told[0], Start) and told[0].round == 0
    found = checkpoint.select(tmp_path)
    events: list[Event] = []
    again = Assignment(out=tmp_path, checkpoint=found, first=False)
    settings = Settings(num_passes=2, dot_period=0, save_dir=tmp_path)
    run(Loaded(JOB), settings, again, events.append, lambda: False)
    assert events[0] == Alive(6)


def test_what_is_deleted_is_decided_first_and_said_before_and_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    train(JOB, out)
    (out / "notes.txt").write_text("mine")
    (out / "generations").mkdir(exist_ok=True)
    before = tree(out)
    plan = prepare.decide(Settings(save_dir=out, overwrite=True))
    assert tree(out) == before, "deciding changes nothing"
    assert {path.name for path in plan.delete} == {
        "checkpoints",
        "metrics.jsonl",
        "pass-00000",
        "run.json",
        "tensorboard",
    }
    capsys.readouterr()
    prepare.carry_out(plan, print)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"--overwrite: deleting from {out}: checkpoints, metrics.jsonl, pass-00000, run.json, tensorboard"
    assert said[1] == f"deleted from {out}: checkpoints, metrics.jsonl, pass-00000, run.json, tensorboard"
    assert {path.name for path in out.iterdir()} == {"notes.txt", "generations"}, "only what a run makes goes"


def test_start_pass_says_that_it_deletes_the_checkpoints_of_the_run_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(JOB, tmp_path)
    capsys.readouterr()
    train(JOB, tmp_path, start_pass=1)
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"--start_pass=1: deleting from {tmp_path}: checkpoints",
        f"deleted from {tmp_path}: checkpoints",
    ]
