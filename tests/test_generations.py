"""A generation has one owner, whoever asks at the same time, and whoever has lost it notices before it writes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from umiak.errors import ReplacedError
from umiak.rundir import generations, layout


def test_of_many_who_ask_at_once_each_gets_a_generation_of_its_own_or_none(tmp_path: Path) -> None:
    start = threading.Barrier(8)

    def ask(number: int) -> list[int]:
        start.wait()
        taken = []
        for _ in range(20):
            try:
                taken.append(generations.seize(tmp_path, str(number)))
            except ReplacedError:
                continue
        return taken

    with ThreadPoolExecutor(8) as threads:
        taken = [number for each in threads.map(ask, range(8)) for number in each]
    assert len(taken) == len(set(taken)), "two have the same generation"
    assert max(taken) == generations.newest(tmp_path)
    assert not list((tmp_path / layout.GENERATIONS).glob(".*")), "drafts are left behind"


def test_who_was_replaced_is_refused_from_then_on(tmp_path: Path) -> None:
    generations.check(tmp_path, 0)
    first = generations.seize(tmp_path, "a")
    generations.check(tmp_path, first)
    second = generations.seize(tmp_path, "b")
    assert (first, second) == (0, 1)
    with pytest.raises(ReplacedError, match="generation 0, and 1 was taken since"):
        generations.check(tmp_path, first)
    generations.check(tmp_path, second)
    with pytest.raises(ReplacedError):
        generations.take(tmp_path, "a", first + 1)
    assert generations.owner_of(tmp_path, second) == "b"


def test_a_directory_of_an_earlier_version_goes_on_counting(tmp_path: Path) -> None:
    assert generations.seize(tmp_path, "a", after=6) == 7


def test_a_generation_that_another_took_after_the_look_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = generations.newest(tmp_path)
    generations.seize(tmp_path, "other")
    with monkeypatch.context() as patch:
        patch.setattr(generations, "newest", lambda out: looked)
        with pytest.raises(ReplacedError, match="taken by another"):
            generations.seize(tmp_path, "sleeper")


def test_files_of_old_generations_do_not_pile_up(tmp_path: Path) -> None:
    for _ in range(generations.KEPT + 5):
        generations.seize(tmp_path, "a")
    assert len(list((tmp_path / layout.GENERATIONS).iterdir())) == generations.KEPT
