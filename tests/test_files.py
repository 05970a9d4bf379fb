"""Files on storage that fails for a while: nothing is lost, nothing is called damaged that is whole.

Errors of a disk are made here by replacing single calls of the system, which tell exactly where; tests/faults does the same
to whole jobs with a file system.
"""

from __future__ import annotations

import errno
import os
import threading
from io import FileIO
from pathlib import Path

import numpy as np
import pytest

from umiak import files
from umiak.errors import DamagedError, InputError, StorageError
from umiak.files import atomic, disk_error, patiently, write_json
from umiak.rundir import reader
from umiak.rundir.tensorfile import Piece, TensorFile, read_tensors, write_tensors


def test_many_writers_with_one_process_id_do_not_take_each_others_files(tmp_path: Path) -> None:
    target, problems = tmp_path / "job.json", []

    def write() -> None:
        try:
            for _ in range(100):
                write_json(target, {"value": "x" * 1000})
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"], "nothing is left behind"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_file_whose_fsync_failed_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Linux drops the pages it could not write and reports that once, so the disk here holds zeros after a failure."""
    real, calls = os.fsync, []

    def fsync(fd: int) -> None:
        calls.append(fd)
        if len(calls) in (1, 3):
            size = os.fstat(fd).st_size
            os.truncate(fd, 0)
            os.truncate(fd, size)
            raise OSError(number, os.strerror(number))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(files, "SETTLED_BYTES", 1000)
    with atomic(tmp_path / "piece") as file:
        for _ in range(3):
            file.write(b"x" * 999 + b"\n")
            # The first part is known to be on the disk by now; only what came after it may be lost by the next failure.
            if len(calls) == 2:
                monkeypatch.setattr(os, "truncate", lambda fd, size: None)
    assert (tmp_path / "piece").read_bytes() == (b"x" * 999 + b"\n") * 3
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ETIMEDOUT])
def test_reading_goes_on_where_the_volume_failed_and_feeds_the_checksum_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    values = np.arange(5000, dtype=np.float32)
    piece = write_tensors(tmp_path / "piece", {"a": values, "b": -values}, {})
    reads = 0

    class Flaky(FileIO):
        """Fails at every third call, and gives less than it was asked for otherwise, as a network file system may."""

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            nonlocal reads
            reads += 1
            if reads % 3 == 0:
                raise OSError(number, os.strerror(number))
            return super().readinto(buffer[:3001])

    monkeypatch.setattr(reader, "_opened", lambda path, _: Flaky(path, "rb"))
    monkeypatch.setattr(files, "FIRST_PAUSE", 0.001)
    found = read_tensors(tmp_path / "piece", piece)
    assert reads > 9
    assert (found.arrays["a"] == values).all()
    assert (found.arrays["b"] == -values).all()
    with TensorFile(tmp_path / "piece") as file:
        assert (file.one("b") == -values).all()


def test_a_volume_that_stays_away_is_no_damage_but_a_reason_to_try_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = write_tensors(tmp_path / "piece", {"a": np.arange(9)}, {})

    def opened(path: Path, missing_seconds: float) -> FileIO:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(reader, "_opened", opened)
    monkeypatch.setattr(files, "STORAGE_SECONDS", 0.3)
    with pytest.raises(StorageError, match="piece: Input/output error, for") as caught:
        read_tensors(tmp_path / "piece", piece)
    assert caught.value.exit_code == 75


def test_only_length_content_and_absence_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "piece"
    piece = write_tensors(path, {"a": np.arange(9)}, {})
    with pytest.raises(DamagedError, match="bytes where"):
        read_tensors(path, Piece(piece.name, piece.bytes + 1, piece.crc32))
    with pytest.raises(DamagedError, match="checksum"):
        read_tensors(path, Piece(piece.name, piece.bytes, piece.crc32 ^ 1))
    path.unlink()
    with pytest.raises(DamagedError, match="is missing"):
        read_tensors(path, piece)


def test_a_piece_that_a_volume_shows_late_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "piece"
    piece = write_tensors(path, {"a": np.arange(9)}, {})
    path.rename(tmp_path / "elsewhere")
    threading.Timer(0.3, (tmp_path / "elsewhere").rename, [path]).start()
    with TensorFile(path, piece, missing_seconds=60.0) as file:
        assert [name for name, _ in file] == ["a"]


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "ENOENT", "ENOTDIR"])
def test_what_a_user_can_mend_is_their_input_and_is_not_repeated(tmp_path: Path, name: str) -> None:
    number, calls = getattr(errno, name), []
    assert disk_error(OSError(number, "…"), tmp_path).exit_code == 2

    def work() -> None:
        calls.append(1)
        raise OSError(number, os.strerror(number))

    with pytest.raises((InputError, FileNotFoundError)):
        patiently(work, tmp_path)
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["EIO", "ESTALE", "EMFILE", "ENFILE", "ETIMEDOUT", "EAGAIN", "EREMOTEIO", "ENOMEM"])
def test_every_other_error_of_the_system_is_worth_another_try(tmp_path: Path, name: str) -> None:
    number, calls = getattr(errno, name), []
    assert disk_error(OSError(number, "…"), tmp_path).exit_code == 75

    def work() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise OSError(number, os.strerror(number))
        return "done"

    assert patiently(work, tmp_path) == "done"


def test_a_missing_file_is_told_from_a_volume_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not files.exists(tmp_path / "there")
    assert files.names_in(tmp_path / "there") == []
    (tmp_path / "there").mkdir()
    assert files.exists(tmp_path / "there")
    monkeypatch.setattr(files, "STORAGE_SECONDS", 0.0)

    def stat(path: Path, **_: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(StorageError, match="there"):
        files.exists(tmp_path / "there")


def test_a_directory_that_another_removed_does_not_count_as_the_users_mistake(tmp_path: Path) -> None:
    """A pod that was replaced ends with 75 when its successor clears up: with 2 it would end the whole job."""
    with pytest.raises(StorageError, match="its directory is gone"), atomic(tmp_path / "round-1" / "piece"):
        pass
