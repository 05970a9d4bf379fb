"""umiak data split and verify: every sample in exactly one shard, whatever the format and however often it is interrupted."""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tests.processes import umiak
from umiak import files
from umiak.data import shards, split
from umiak.data.shardroot import LOCK, in_the_way, locked
from umiak.errors import InputError, RetryError

SAMPLES = [f"sample {number}\n" for number in range(1000)]


def cut(source: Path, out: Path, count: int = 3, **options: object) -> shards.Manifest:
    return split.split(split.plan(source, count, **options), out)  # type: ignore[arg-type]


def lines_of(out: Path, name: str, count: int = 3, layout: str = "2017") -> list[list[str]]:
    return [shards.directory(out, layout, i).joinpath(name).read_text().splitlines(True) for i in range(count)]


def test_lines_are_dealt_out_in_turn_and_none_is_lost(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("".join(SAMPLES))
    manifest = cut(tmp_path / "all.txt", tmp_path / "out")
    assert lines_of(tmp_path / "out", "all.txt") == [SAMPLES[0::3], SAMPLES[1::3], SAMPLES[2::3]]
    assert [manifest.of_shard(i) for i in range(3)] == [334, 333, 333]
    assert shards.verify(tmp_path / "out") == manifest


def test_both_layouts_of_directories(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("".join(SAMPLES))
    cut(tmp_path / "all.txt", tmp_path / "new")
    cut(tmp_path / "all.txt", tmp_path / "old", layout="2016")
    assert (tmp_path / "new/2/data/all.txt").read_bytes() == (tmp_path / "old/data/2/all.txt").read_bytes()
    assert shards.locate(tmp_path / "new", 1) == tmp_path / "new/1/data"
    assert shards.locate(tmp_path / "old", 1) == tmp_path / "old/data/1"


def test_a_last_line_without_a_newline_does_not_run_into_the_next(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("one\ntwo")
    (source / "b.txt").write_text("three\nfour")
    cut(source, tmp_path / "out", 2)
    assert lines_of(tmp_path / "out", "a.txt", 2) == [["one\n"], ["two\n"]]
    assert lines_of(tmp_path / "out", "b.txt", 2) == [["three\n"], ["four\n"]]


def test_counting_goes_on_from_file_to_file_so_shards_stay_balanced(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(30):
        (source / f"{number:02}.txt").write_text("only one\n")
    manifest = cut(source, tmp_path / "out")
    assert [manifest.of_shard(i) for i in range(3)] == [10, 10, 10]
    shards.verify(tmp_path / "out")


def test_a_train_list_says_what_is_cut_and_the_rest_is_whole_everywhere(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.txt").write_text("".join(SAMPLES))
    (source / "dict.txt").write_text("the\nand\n")
    (source / "train.list").write_text("data/train.txt\n")
    manifest = cut(source, tmp_path / "out")
    assert manifest.samples == len(SAMPLES)
    assert lines_of(tmp_path / "out", "dict.txt") == [["the\n", "and\n"]] * 3


def test_a_listed_file_is_cut_by_lines_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/ratings.train").write_text("".join(SAMPLES))
    (tmp_path / "source/train.list").write_text("./data/ratings.train\n")
    cut(tmp_path / "source", tmp_path / "out")
    assert lines_of(tmp_path / "out", "ratings.train")[1] == SAMPLES[1::3]
    shards.verify(tmp_path / "out")


def test_without_a_train_list_a_pattern_says_what_stays_whole(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.txt").write_text("".join(SAMPLES))
    (source / "test.txt").write_text("t\n")
    (source / "model.bin").write_bytes(b"\0\1")
    assert split.plan(source, 3, whole=["test*"]).whole == ("model.bin", "test.txt")
    with pytest.raises(InputError, match="matches no file"):
        split.plan(source, 3, whole=["tset*"])


def test_a_quoted_csv_cell_may_hold_line_ends_and_every_shard_gets_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,text\n1,"two\nlines"\n2,one\n3,"a ""quote"""\n')
    cut(tmp_path / "a.csv", tmp_path / "out", 2, header=True)
    assert (tmp_path / "out/0/data/a.csv").read_text() == 'id,text\n1,"two\nlines"\n3,"a ""quote"""\n'
    assert (tmp_path / "out/1/data/a.csv").read_text() == "id,text\n2,one\n"
    assert shards.verify(tmp_path / "out").samples == 3


def test_gzip_files_stay_gzip_files_and_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.writelines(SAMPLES)
    cut(tmp_path / "a.jsonl.gz", tmp_path / "one")
    cut(tmp_path / "a.jsonl.gz", tmp_path / "two")
    with gzip.open(tmp_path / "one/1/data/a.jsonl.gz", "rt") as file:
        assert file.readlines() == SAMPLES[1::3]
    assert (tmp_path / "one/manifest.json").read_bytes() == (tmp_path / "two/manifest.json").read_bytes()
    shards.verify(tmp_path / "one")


def test_parquet_rows_keep_their_schema(tmp_path: Path) -> None:
    table = pyarrow.table({"id": list(range(500)), "words": [[i, i + 1] for i in range(500)]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=70)
    cut(tmp_path / "a.parquet", tmp_path / "out")
    part = pyarrow.parquet.read_table(tmp_path / "out/2/data/a.parquet")
    assert part.schema == table.schema
    assert part["id"].to_pylist() == list(range(2, 500, 3))
    assert shards.verify(tmp_path / "out").samples == 500


def test_a_damaged_gzip_source_is_an_error_that_names_it(tmp_path: Path) -> None:
    whole = gzip.compress("".join(SAMPLES).encode())
    (tmp_path / "a.txt.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"a\.txt\.gz is damaged"):
        cut(tmp_path / "a.txt.gz", tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_text("short\n"), "bytes where the manifest says"),
        (lambda path: path.write_text(path.read_text().replace("sample 4\n", "sample 5\n")), "SHA-256"),
        (lambda path: path.with_name("more.txt").write_text("x\n"), "is not in the manifest"),
    ],
)
def test_verify_finds_damage(tmp_path: Path, damage: object, told: str) -> None:
    (tmp_path / "all.txt").write_text("".join(SAMPLES))
    cut(tmp_path / "all.txt", tmp_path / "out")
    damage(tmp_path / "out/1/data/all.txt")  # type: ignore[operator]
    with pytest.raises(InputError, match=told):
        shards.verify(tmp_path / "out")


def test_a_manifest_that_agrees_with_shards_that_lost_a_sample_is_still_found_wrong(tmp_path: Path) -> None:
    """The proof is the merged content, not only that files are as they were written."""
    (tmp_path / "all.txt").write_text("".join(SAMPLES))
    cut(tmp_path / "all.txt", tmp_path / "out")
    lost = "".join(SAMPLES[1::3][:-1])
    (tmp_path / "out/1/data/all.txt").write_text(lost)
    manifest = shards.read(tmp_path / "out")
    assert manifest is not None
    entry = manifest.files[0]
    piece = shards.Piece(len(lost), hashlib.sha256(lost.encode()).hexdigest(), entry.pieces[1].samples)
    entry = replace(entry, pieces=(entry.pieces[0], piece, entry.pieces[2]))
    replace(manifest, files=(entry,)).write(tmp_path / "out")
    with pytest.raises(InputError, match="are not the 1,000 they were cut from"):
        shards.verify(tmp_path / "out")


def test_killed_in_the_middle_of_a_file_the_same_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("".join(f"{number:0100}\n" for number in range(100_000)))
    program = """
import os, signal, sys
from pathlib import Path
from umiak.data import shards, split
shards.CHUNK = 100_000
split.SAVE_BYTES = 1_000_000
at = []
def progress(done, total):
    at.append(done)
    if done > 5_000_000 and sys.argv[3] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
split.split(split.plan(Path(sys.argv[1]), 3), Path(sys.argv[2]), on_progress=progress)
print(at[0])
"""
    command = [sys.executable, "-c", program, str(tmp_path / "all.txt"), str(tmp_path / "out")]
    assert subprocess.run([*command, "die"], check=False).returncode == -signal.SIGKILL
    done = subprocess.run([*command, "live"], check=True, capture_output=True, text=True)
    assert int(done.stdout) > 4_000_000, "it began again at the start"
    assert shards.verify(tmp_path / "out").samples == 100_000
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0", "1", "2", "manifest.json"]


def test_a_changed_source_is_not_mixed_with_what_was_begun(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("".join(SAMPLES))
    cut(tmp_path / "all.txt", tmp_path / "out")
    (tmp_path / "all.txt").write_text("".join(SAMPLES[:500]))
    with pytest.raises(InputError, match="already holds shards"):
        cut(tmp_path / "all.txt", tmp_path / "out")
    plan = split.plan(tmp_path / "all.txt", 3)
    assert split.split(plan, tmp_path / "out", overwrite=True).samples == 500


def test_two_at_once_into_one_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("".join(SAMPLES))

    def second(done: int, total: int) -> None:
        with pytest.raises(RetryError, match="another umiak data split"):
            cut(tmp_path / "all.txt", tmp_path / "out")

    split.split(split.plan(tmp_path / "all.txt", 3), tmp_path / "out", on_progress=second)


def test_a_shard_is_staged_only_if_it_is_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("".join(SAMPLES))
    cut(tmp_path / "all.txt", tmp_path / "out")
    assert shards.stage(tmp_path / "out", 1, 3, tmp_path / "data") == 1
    assert (tmp_path / "data/all.txt").read_text() == "".join(SAMPLES[1::3])
    with pytest.raises(InputError, match="split into 3 shards, but there are 4 trainers"):
        shards.stage(tmp_path / "out", 1, 4, tmp_path / "data")
    (tmp_path / "out/1/data/all.txt").write_text("other")
    with pytest.raises(InputError, match="bytes where the manifest says"):
        shards.stage(tmp_path / "out", 1, 3, tmp_path / "other")
    assert not (tmp_path / "other/all.txt").exists()


@pytest.mark.parametrize(
    "name", ["../config.py", "/etc/passwd", "a/../../config.py", "..", "", ".", "a//b", "a/", "..\\config.py", "a\0b"]
)
def test_a_manifest_that_names_a_file_outside_the_shard_is_refused_and_nothing_is_written(
    tmp_path: Path, name: str
) -> None:
    """Staged, `../config.py` would replace the config that is run next: data would become code."""
    (tmp_path / "all.txt").write_text("".join(SAMPLES))
    cut(tmp_path / "all.txt", tmp_path / "out")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    manifest["files"][0]["path"] = name
    (tmp_path / "out/manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "out/0/config.py").write_text("evil")
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod/config.py").write_text("good")
    for work in (
        lambda: shards.stage(tmp_path / "out", 0, 3, tmp_path / "pod/data"),
        lambda: shards.verify(tmp_path / "out"),
    ):
        with pytest.raises(InputError, match=r"manifest\.json names the file .*, which is not a plain path") as refused:
            work()
        assert repr(name) in str(refused.value)
    assert (tmp_path / "pod/config.py").read_text() == "good"
    assert sorted(path.name for path in (tmp_path / "pod").iterdir()) == ["config.py"]


@pytest.mark.parametrize("by_hand", [False, True], ids=["with a manifest", "cut by hand"])
@pytest.mark.parametrize("linked", ["all.txt", "folder", "data"])
def test_a_link_in_a_shard_is_refused_by_name_not_followed(tmp_path: Path, linked: str, by_hand: bool) -> None:
    """Whoever can write to the volume could have a pod read its own secrets into the data."""
    source = tmp_path / "source"
    (source / "folder").mkdir(parents=True)
    for name in ("all.txt", "folder/b.txt"):
        (source / name).write_text("".join(SAMPLES))
    cut(source, tmp_path / "out")
    link = tmp_path / "out/0/data" / (linked if linked != "data" else "")
    secret = link.rename(tmp_path / "secret")
    link.symlink_to(secret)
    if by_hand:
        (tmp_path / "out/manifest.json").unlink()
    with pytest.raises(InputError, match=f"{link} is a symbolic link"):
        shards.stage(tmp_path / "out", 0, 3, tmp_path / "data")
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_symlink()]


def test_a_name_that_a_manifest_may_not_have_is_refused_before_anything_is_cut(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a\\b.txt").write_text("".join(SAMPLES))
    with pytest.raises(InputError, match=r"backslash .* rename it"):
        cut(tmp_path / "source", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_volume_that_fails_for_a_moment_is_read_again_and_one_that_stays_so_is_no_fault_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Errors that no local disk gives on demand, so the call that opens a file is replaced."""
    (tmp_path / "all.txt").write_text("".join(SAMPLES))
    cut(tmp_path / "all.txt", tmp_path / "out")
    really, failures = Path.open, [2, 2]

    def fails(path: Path, *arguments: object, **options: object) -> object:
        which = 0 if path.name == "manifest.json" else 1
        if path.is_relative_to(tmp_path / "out") and failures[which]:
            failures[which] -= 1
            raise OSError(number, os.strerror(number), str(path))
        return really(path, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", fails)
    assert shards.stage(tmp_path / "out", 1, 3, tmp_path / "data") == 1
    assert failures == [0, 0] and (tmp_path / "data/all.txt").read_text() == "".join(SAMPLES[1::3])
    monkeypatch.setattr(files, "STORAGE_SECONDS", 0.1)
    for lasting, name in (([100, 0], "manifest.json"), ([0, 100], "all.txt")):
        failures[:] = lasting
        with pytest.raises(RetryError, match=rf"cannot read .*{name}: .*; try again when") as told:
            shards.stage(tmp_path / "out", 1, 3, tmp_path / "other")
        assert told.value.exit_code == 75


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["missing", "out", "--shards", "3"], "there is no file or directory missing"),
        (["a.bin", "out", "--shards", "3"], "cannot tell the format of a.bin"),
        (["few.txt", "out", "--shards", "3"], "few.txt has 2 samples, too few for 3 shards"),
        (["few.txt", "out", "--shards", "0"], "--shards 0: write at least 1"),
        (["few.txt", "out"], "the following arguments are required: --shards"),
        ([".", "out", "--shards", "2"], "out is inside ."),
    ],
)
def test_bad_input_gets_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    (tmp_path / "a.bin").write_text("x")
    (tmp_path / "few.txt").write_text("a\nb\n")
    monkeypatch.chdir(tmp_path)
    error = umiak("data", "split", *words, code=2)
    assert told in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("out/*"))


def test_a_lock_on_a_file_that_another_has_removed_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our opening the lock file and our locking it, one writer leaves and removes it, and the next one comes."""
    real, others = fcntl.flock, []

    def flock(file: Any, how: int) -> None:
        if not others:
            (tmp_path / LOCK).unlink()
            others.append((tmp_path / LOCK).open("w"))
            real(others[0], how)
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(RetryError, match="another umiak data split is writing"), locked(tmp_path):
        pytest.fail("two are in")
    others[0].close()
    with locked(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert not (tmp_path / LOCK).exists()


def test_overwrite_says_what_it_deletes_before_and_after(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    (tmp_path / "b.txt").write_text("4\n5\n6\n")
    split.split(split.plan(tmp_path / "a.txt", 3), tmp_path / "out")
    assert in_the_way(tmp_path / "out", overwrite=True) and (tmp_path / "out/0/data/a.txt").exists()
    caplog.clear()
    split.split(split.plan(tmp_path / "b.txt", 2), tmp_path / "out", overwrite=True)
    assert [record.message for record in caplog.records] == [
        f"--overwrite: deleting the 3 shards that are in {tmp_path / 'out'}",
        f"deleted 3 shards from {tmp_path / 'out'}",
    ]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0", "1", "manifest.json"]


def test_a_volume_that_fails_for_a_moment_costs_no_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(100)))
    split.split(split.plan(tmp_path / "a.txt", 3), tmp_path / "whole")
    real, calls = os.fsync, []

    def fsync(fd: int) -> None:
        calls.append(fd)
        if len(calls) in (4, 9):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    split.split(split.plan(tmp_path / "a.txt", 3), tmp_path / "out")
    assert len(calls) > 9
    for index in range(3):
        name = f"{index}/data/a.txt"
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    shards.verify(tmp_path / "out")
