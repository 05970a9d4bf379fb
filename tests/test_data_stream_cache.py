"""The disk cache of what was read from S3: bounded, checked, kept from pass to pass."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from umiak.data import stream
from umiak.data.streaming.cache import DIGEST, Cache, size_of
from umiak.errors import InputError


def held(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*/*"))


def test_what_was_kept_is_read_back_by_another_process_of_the_machine(tmp_path: Path) -> None:
    Cache(tmp_path, 1000).put("a", b"x" * 100)
    assert Cache(tmp_path, 1000).get("a") == b"x" * 100
    assert Cache(tmp_path, 1000).get("b") is None


def test_the_cache_stays_below_its_limit_and_keeps_what_this_run_uses(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 10 * (100 + DIGEST))
    for number in range(30):
        cache.put(f"{number}", bytes(100))
    assert held(tmp_path) == 10 * (100 + DIGEST)
    assert cache.get("0") is not None and cache.get("29") is None, "the first ten are of use in the next pass"


def test_what_an_earlier_run_left_makes_room(tmp_path: Path) -> None:
    earlier = Cache(tmp_path, 10 * (100 + DIGEST))
    for number in range(10):
        earlier.put(f"old {number}", bytes(100))
    for path in tmp_path.glob("*/*"):
        os.utime(path, (1, 1))
    now = Cache(tmp_path, 10 * (100 + DIGEST))
    now.put("new", bytes(100))
    assert now.get("new") is not None
    assert held(tmp_path) == 10 * (100 + DIGEST)


def test_a_damaged_entry_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache(tmp_path, 1000)
    cache.put("a", b"right")
    (path,) = tmp_path.glob("*/*")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert cache.get("a") is None
    assert "is damaged; fetching it again" in caplog.text


def test_sizes_are_written_with_their_unit() -> None:
    assert size_of("50GB") == 50 * 10**9
    assert size_of("1.5MiB") == 3 << 19
    with pytest.raises(InputError, match=r'must be a size like "50GB" or "500MB", not \'50\''):
        stream("a.parquet", cache="50")
