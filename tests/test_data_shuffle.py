"""How well a stream shuffles sorted files: close to a full permutation where row groups are small, and never as bad as none."""

from __future__ import annotations

from pathlib import Path

import pytest

from umiak.bench.shuffling import measure


def test_small_row_groups_shuffle_sorted_files_as_well_as_a_full_permutation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    full, none, small, large = measure(40_000, 5_000, [(50, 1 << 17), (10_000, 1 << 12)])
    assert full.spread == pytest.approx(1, abs=0.3)
    assert small.spread == pytest.approx(1, abs=0.4), "all rows are in one window"
    assert full.spread < large.spread < none.spread
    assert small.cost == pytest.approx(full.cost, rel=0.03)
    assert none.cost > 1.5 * full.cost
