"""Sparse tables: rows by id that begin alike everywhere, grow, wait, expire, and survive a restart byte for byte."""

from __future__ import annotations

import os
import statistics
from typing import Any

import numpy as np
import pytest

from umiak.errors import InputError
from umiak.pserver import index
from umiak.pserver.cells import ABSENT
from umiak.pserver.index import RowIndex
from umiak.pserver.optimizers import Clock
from umiak.pserver.rowinit import RowInit
from umiak.pserver.rowinit import _normal as normal_quantile
from umiak.pserver.table import Table
from umiak.spec.optim import SGD, AdaGrad, Adam, Optimizer, ParamOptions

NORMAL = {"kind": "normal", "mean": 0.0, "std": 0.1}


def make(optimizer: Optimizer | None = None, dim: int = 4, init: dict[str, Any] = NORMAL, **more: Any) -> Table:
    return Table("t", dim, 7, init, optimizer or AdaGrad(0.1), **more)


def many_ids(count: int, seed: int = 0) -> np.ndarray:
    """Ids from all of the 64-bit range, in no order, its ends and 0 among them."""
    rng = np.random.default_rng(seed)
    ends = np.array([0, -1, 1, 2**63 - 1, -(2**63)], np.int64)
    return rng.permutation(np.unique(np.concatenate([ends, rng.integers(-(2**63), 2**63 - 1, count - 5)])))


def values(table: Table, ids: np.ndarray) -> np.ndarray:
    out = np.empty((ids.size, table.dim), np.float32)
    table.peek(ids, out)
    return out


def located(table: Table, rows: np.ndarray) -> np.ndarray:
    out = np.empty((rows.size, table.dim), np.float32)
    table.gather(rows, out)
    return out


def ones(rows: np.ndarray, dim: int = 4) -> np.ndarray:
    return np.ones((rows.size, dim), np.float32)


def contents(table: Table) -> bytes:
    """Everything a checkpoint would hold."""
    export = table.export()
    parts = [export.ids, export.passes, *export.rows(), *table.export_waiting()]
    return b"".join(part.tobytes() for part in parts)


def reborn(table: Table, **more: Any) -> Table:
    """A new table with what the old one exports, given in an awkward order."""
    new = make(table.optimizer, table.dim, **more)
    for chunk in reversed(list(table.export())):
        new.restore(*chunk)
    new.restore_waiting(*table.export_waiting())
    return new


def test_a_row_begins_with_the_same_values_whatever_came_before_it() -> None:
    ids = many_ids(5000)
    forward, backward, alone = make(), make(), make()
    forward.locate(ids)
    backward.locate(ids[::-1])
    alone.locate(ids[17:18])
    assert values(forward, ids).tobytes() == values(backward, ids).tobytes()
    assert values(forward, ids)[17].tobytes() == values(alone, ids)[17].tobytes()
    assert contents(forward) == contents(backward)


def test_first_values_depend_on_seed_table_and_id_and_have_the_distribution_asked_for() -> None:
    ids = np.arange(20000)

    def draw(seed: int = 1, table: str = "t", **init: Any) -> np.ndarray:
        out = np.empty((ids.size, 8), np.float32)
        RowInit.of(seed, table, init).fill(ids, out)
        return out

    normal = draw(kind="normal", mean=2.0, std=0.5)
    assert normal.mean() == pytest.approx(2.0, abs=0.005)
    assert normal.std() == pytest.approx(0.5, abs=0.005)
    assert ((normal - 2) ** 4).mean() / 0.5**4 == pytest.approx(3, abs=0.1)
    uniform = draw(kind="uniform", low=-1, high=3)
    assert uniform.min() >= -1
    assert uniform.max() <= 3
    assert np.histogram(uniform, 4)[0] == pytest.approx(40000, rel=0.03)
    assert (draw(kind="constant", value=0.25) == 0.25).all()
    correlation = np.corrcoef(np.concatenate([uniform.T, draw(2, kind="uniform", low=-1, high=3).T]))
    assert np.abs(correlation - np.eye(16)).max() < 0.03
    assert not np.isin(uniform[:, 0], draw(1, "other", kind="uniform", low=-1, high=3)[:, 0]).all()


def test_normal_values_come_from_the_right_quantiles() -> None:
    for p in [1e-12, 1e-6, 0.02, 0.07, 0.08, 0.5, 0.6, 0.95, 1 - 1e-9]:
        assert normal_quantile(p) == pytest.approx(statistics.NormalDist().inv_cdf(p), abs=2e-6)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ({"kind": "xavier"}, "table 't': init.kind must be one of constant, uniform, normal, not 'xavier'"),
        ({"kind": "uniform", "low": 0}, "table 't': init.high must be a number, not None"),
    ],
)
def test_an_unknown_beginning_is_refused(init: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(init=init)


def test_rows_keep_their_values_while_the_table_grows() -> None:
    table = make(SGD(1.0))
    ids = many_ids(400_000)
    first = table.locate(ids[:1000])
    table.add(first, ones(first))
    table.step(1, Clock(1, 1, 0))
    before = values(table, ids[:1000])
    for start in range(1000, ids.size, 50_000):
        table.locate(ids[start : start + 50_000])
    assert table.stats().rows == ids.size
    assert values(table, ids[:1000]).tobytes() == before.tobytes()
    assert (table.locate(ids[:1000]) == first).all()
    assert len(set(table.locate(ids).tolist())) == ids.size


@pytest.mark.parametrize("min_count", [0, 2])
def test_a_crowded_index_finds_what_a_dict_would(min_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umiak.pserver.index._FIRST", 16)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        index = RowIndex(min_count, track_passes=True)
        known: dict[int, int] = {}
        for pass_id in range(12):
            ids = rng.choice(rng.choice([40, 400]), 20, replace=False) - 20
            index.touch(ids, np.empty(20, np.int32), 0, 10**6, 10**6, pass_id)
            known |= dict.fromkeys(ids.tolist(), pass_id)
            index.admit()
            if rng.random() < 0.4:
                index.expire(pass_id - 1)
                known = {key: last for key, last in known.items() if last >= pass_id - 1}
            (rows, numbers, passes), (waiting, _, still) = index.sorted(), index.sorted_waiting()
            assert dict(zip(rows.tolist() + waiting.tolist(), passes.tolist() + still.tolist(), strict=True)) == known
            found = np.empty(rows.size, np.int32)
            index.find(rows, found)
            assert found.tolist() == numbers.tolist()
            assert len(set(found.tolist())) == rows.size
            absent = np.setdiff1d(np.arange(-20, 400), rows)
            found = np.empty(absent.size, np.int32)
            index.find(absent, found)
            assert (found == ABSENT).all()


def test_peeking_never_creates_a_row() -> None:
    table = make()
    ids = many_ids(100)
    table.locate(ids[:50])
    assert (table.locate(ids, create=False)[50:] == -1).all()
    seen = values(table, ids)
    assert table.stats().rows == 50
    table.locate(ids)
    assert values(table, ids).tobytes() == seen.tobytes()


def test_rows_of_a_read_only_buffer_are_taken_like_any_other() -> None:
    table = make(SGD(1.0), init={"kind": "constant", "value": 0.0})
    ids = np.frombuffer(np.arange(3).tobytes(), np.int64)
    rows = table.locate(ids)
    table.add(rows, np.frombuffer(ones(rows).tobytes(), np.float32).reshape(3, 4))
    table.step(1, Clock(1, 1, 0))
    assert (values(table, ids) == -1).all()


def test_gradients_of_all_trainers_make_one_update() -> None:
    table = make(SGD(0.5), init={"kind": "constant", "value": 0.0})
    a, b = table.locate(np.array([1, 2, 3])), table.locate(np.array([3, 4]))
    table.add(a, ones(a) * 2)
    table.add(b, ones(b) * 6)
    table.step(8, Clock(1, 8, 0))
    assert values(table, np.arange(6))[:, 0].tolist() == [0, -0.125, -0.125, -0.5, -0.375, 0]
    table.step(8, Clock(2, 16, 0))
    assert values(table, np.arange(6))[:, 0].tolist() == [0, -0.125, -0.125, -0.5, -0.375, 0]


def test_an_id_given_twice_adds_up() -> None:
    table = make(SGD(1.0), init={"kind": "constant", "value": 0.0})
    rows = table.locate(np.array([5, 9, 5]))
    assert rows[0] == rows[2]
    table.add(rows, ones(rows))
    table.step(1, Clock(1, 1, 0))
    assert values(table, np.array([5, 9]))[:, 0].tolist() == [-2, -1]


def rounds(table: Table, arrival: list[int], start: int = 0, stop: int = 12) -> None:
    """Three trainers for some rounds; `arrival` is the order in which their ids reach the service."""
    for step in range(start, stop):
        wanted = [np.unique(np.random.default_rng([step, t]).zipf(1.3, 200) % 500) for t in range(3)]
        rows = {t: table.locate(wanted[t], pass_id=step // 4) for t in arrival}
        for t in range(3):
            located(table, rows[t])
        for t in range(3):
            grads = np.random.default_rng([step, t, 1]).standard_normal((rows[t].size, table.dim))
            table.add(rows[t], grads.astype(np.float32))
        table.step(3, Clock(step + 1, 3 * (step + 1), step // 4))
        if step % 4 == 3:
            table.end_pass(step // 4 + 1)


LIMITS: list[dict[str, Any]] = [
    {},
    {"dtype": "float16"},
    {"min_count": 3},
    {"expire_after": 1},
    {"min_count": 2, "expire_after": 1, "dtype": "float16"},
]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("optimizer", [AdaGrad(0.1), Adam(0.1)], ids=lambda o: type(o).__name__)
def test_contents_do_not_depend_on_the_order_of_arrival(limits: dict[str, Any], optimizer: Optimizer) -> None:
    tables = [make(optimizer, 5, **limits) for _ in range(3)]
    for table, arrival in zip(tables, ([0, 1, 2], [0, 1, 2], [2, 0, 1]), strict=True):
        rounds(table, arrival)
    assert tables[0].stats().rows > 100
    assert contents(tables[0]) == contents(tables[1]) == contents(tables[2])


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_a_restored_table_goes_on_as_if_nothing_had_happened(limits: dict[str, Any]) -> None:
    whole = make(Adam(0.1), 5, **limits)
    rounds(whole, [0, 1, 2])
    first = make(Adam(0.1), 5, **limits)
    rounds(first, [0, 1, 2], stop=6)
    second = reborn(first, **limits)
    assert contents(second) == contents(first)
    rounds(second, [0, 1, 2], start=6)
    assert contents(second) == contents(whole)


def test_an_export_is_sorted_and_holds_whole_rows() -> None:
    table = make(AdaGrad(0.1, initial_accumulator_value=0.5), dim=3)
    ids = many_ids(200_000)
    table.locate(ids)
    export = table.export()
    assert (export.ids == np.sort(ids)).all()
    rows = np.concatenate(list(export.rows()))
    assert rows.shape == (ids.size, 6)
    assert (rows[:, 3:] == 0.5).all()
    assert rows[:, :3].tobytes() == values(table, export.ids).tobytes()
    assert np.concatenate(list(export.values())).tobytes() == values(table, export.ids).tobytes()


def test_a_forked_child_exports_the_table_as_it_was() -> None:
    table = make(SGD(1.0))
    rows = table.locate(np.arange(1000))
    before = contents(table)
    may_read, may_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(may_read, 1)
        os._exit(0 if contents(table) == before else 1)
    table.add(rows, ones(rows))
    table.step(1, Clock(1, 1, 0))
    table.locate(np.arange(500_000))
    os.write(may_write, b"x")
    assert os.waitpid(child, 0)[1] == 0
    assert contents(table) != before
    os.close(may_read)
    os.close(may_write)


def test_rows_of_another_shape_are_refused() -> None:
    table = make(AdaGrad(), dim=4)
    table.locate(np.arange(10))
    chunk = next(iter(table.export()))
    with pytest.raises(InputError, match=r"rows of table 't' are 8 floats and this job's are 12"):
        make(Adam(), dim=4).restore(*chunk)


def test_values_of_a_snapshot_make_rows_with_new_state() -> None:
    table = make(AdaGrad(0.1, initial_accumulator_value=0.5), dim=2)
    table.set_values(np.array([3, 1]), np.array([[1, 2], [3, 4]], np.float32))
    assert np.concatenate(list(table.export().rows())).tolist() == [[3, 4, 0.5, 0.5], [1, 2, 0.5, 0.5]]


def test_min_count_trains_a_row_only_after_that_many_touches() -> None:
    table = make(SGD(1.0), init={"kind": "constant", "value": 0.5}, min_count=3)
    id_ = np.array([11])
    seen = []
    for step in range(1, 6):
        rows = table.locate(id_)
        table.add(rows, ones(rows))
        table.step(1, Clock(step, step, 0))
        seen.append((table.stats().rows, float(located(table, rows)[0, 0])))
    assert seen == [(0, 0.5), (0, 0.5), (1, 0.5), (1, -0.5), (1, -1.5)]


def test_ids_that_wait_take_no_row_and_keep_their_first_values() -> None:
    table = make(min_count=2)
    ids = many_ids(300_000)
    rows = table.locate(ids)
    table.step(1, Clock(1, 1, 0))
    stats = table.stats()
    assert (stats.rows, stats.waiting, stats.new) == (0, ids.size, 0)
    assert located(table, rows).tobytes() == values(table, ids).tobytes() == values(make(), ids).tobytes()
    assert stats.bytes / ids.size < 80


def test_a_ticket_leads_to_its_row_in_the_next_round_for_every_trainer() -> None:
    table = make(SGD(1.0), init={"kind": "constant", "value": 0.0}, min_count=2)
    first, second = table.locate(np.array([1, 2])), table.locate(np.array([2, 3]))
    table.step(1, Clock(1, 1, 0))
    located(table, first), located(table, second)
    table.add(first, ones(first))
    table.add(second, ones(second))
    table.step(1, Clock(2, 2, 0))
    assert values(table, np.array([1, 2, 3]))[:, 0].tolist() == [0, -2, 0]


def test_a_ticket_held_over_the_end_of_a_pass_leads_to_no_other_row() -> None:
    table = make(SGD(1.0), init={"kind": "constant", "value": 0.0}, min_count=2)
    held = table.locate(np.array([1]))
    table.locate(np.array([1]))
    table.step(1, Clock(1, 1, 0))
    table.end_pass(1)
    for _ in range(2):
        table.locate(np.arange(100, 200))
        table.step(1, Clock(2, 2, 1))
    table.add(held, ones(held))
    table.step(1, Clock(3, 3, 1))
    assert values(table, np.array([1]))[0, 0] == -1
    assert not values(table, np.arange(100, 200)).any()


def test_what_was_located_before_a_checkpoint_does_not_count_twice() -> None:
    undisturbed = make(SGD(1.0), min_count=3)
    for step in range(1, 3):
        undisturbed.locate(np.arange(3))
        undisturbed.step(1, Clock(step, step, 0))
    resumed = reborn(undisturbed, min_count=3)
    resumed.locate(np.arange(3), again=True)
    for table in (undisturbed, resumed):
        rows = table.locate(np.array([1]))
        assert reborn(table, min_count=3).export_waiting()[1].tolist() == [2, 3, 2]
        table.step(1, Clock(3, 3, 0))
        table.add(rows, ones(rows))
        table.step(1, Clock(4, 4, 0))
    assert undisturbed.stats().rows == 1
    assert contents(undisturbed) == contents(resumed)


def test_rows_expire_after_passes_without_a_touch_and_begin_again() -> None:
    table = make(SGD(1.0), init={"kind": "constant", "value": 0.0}, expire_after=2)
    ids = np.arange(50_000)
    rows = table.locate(ids, pass_id=0)
    table.add(rows, ones(rows))
    table.step(1, Clock(1, 1, 0))
    assert table.end_pass(1) == 0
    assert table.end_pass(2) == 0
    table.locate(ids[::2], pass_id=2)
    assert table.end_pass(3) == 25_000
    assert table.stats().rows == 25_000
    assert (values(table, ids)[:, 0] == np.where(ids % 2, 0, -1)).all()
    table.locate(ids, pass_id=3)
    assert table.stats().rows == 50_000
    assert (values(table, ids)[:, 0] == np.where(ids % 2, 0, -1)).all()
    assert table.end_pass(5) == 0
    assert table.end_pass(6) == 50_000
    assert table.stats().expired == 75_000


def test_rows_that_expired_give_their_memory_to_new_ones() -> None:
    table = make(expire_after=1)
    for pass_id in range(6):
        table.locate(np.arange(100_000) + 100_000 * pass_id, pass_id=pass_id)
        table.end_pass(pass_id + 1)
        if pass_id == 1:
            size = table.bytes
    assert table.bytes == size


def test_a_full_table_says_what_a_row_costs_and_what_to_do() -> None:
    table = make(max_rows=1000)
    table.locate(np.arange(1000))
    table.locate(np.arange(1000))
    with pytest.raises(
        InputError, match=r"table 't' is full: it holds 1,000 rows of \d+ bytes and max_rows is 1,000; raise"
    ):
        table.locate(np.array([1000]))
    waiting = make(max_rows=2, min_count=2)
    waiting.locate(np.arange(3))
    waiting.locate(np.arange(3))
    with pytest.raises(InputError, match=r"table 't' is full"):
        waiting.step(1, Clock(1, 1, 0))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"min_count": -1}, "table 't': min_count must be at least 0, not -1"),
        ({"expire_after": 0}, "table 't': expire_after must be at least 1, not 0"),
        ({"max_rows": 0}, "table 't': max_rows must be at least 1, not 0"),
        ({"dtype": "int8"}, "table 't': dtype must be \"float32\" or \"float16\", not 'int8'"),
    ],
)
def test_limits_out_of_range_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**limits)


def test_a_declared_vocabulary_changes_no_byte() -> None:
    """Its rows are found without a search once they are known; new, known and both, before and after a restart."""
    rng = np.random.default_rng(3)
    tables = [make(vocab=200), make()]
    for step in range(1, 9):
        if step == 5:
            tables = [reborn(tables[0], vocab=200), reborn(tables[1])]
        ids = rng.choice(50 * step if step < 5 else 200, 40, replace=False)
        for table in tables:
            rows = table.locate(ids)
            table.add(rows, ones(rows) * step)
            table.step(1.0, Clock(step, step, 0))
            assert (table.locate(ids) == rows).all()
    assert contents(tables[0]) == contents(tables[1])
    assert tables[0].stats()[:2] == tables[1].stats()[:2] and tables[0].stats().touches == tables[1].stats().touches


def test_ids_outside_a_declared_vocabulary_are_refused() -> None:
    table = make(vocab=10)
    table.locate(np.arange(10))
    for bad in (-1, 10):
        with pytest.raises(InputError, match=rf"id {bad} is outside table 't', which declares 10 rows"):
            table.locate(np.array([3, bad]))


def test_half_precision_rounds_as_numpy_does() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    halves = bits.view(np.float16)
    finite = halves[np.isfinite(halves)].astype(np.float32)
    rng = np.random.default_rng(0)
    between = (finite[:-1] + finite[1:]) / 2
    wild = rng.integers(0, 2**32, 200_000, np.uint32).view(np.float32)
    wild = wild[~np.isnan(wild)]
    samples = np.concatenate(
        [
            finite,
            between,
            np.nextafter(between, np.float32(0)),
            wild,
            np.array([np.inf, -np.inf, 7e4, 65519.9], np.float32),
        ]
    )
    samples = samples[: samples.size // 3 * 3].reshape(-1, 3)
    table = make(SGD(), dim=3, dtype="float16")
    ids = np.arange(len(samples))
    table.set_values(ids, samples)
    with np.errstate(over="ignore"):
        expected = samples.astype(np.float16).astype(np.float32)
    assert values(table, ids).tobytes() == expected.tobytes()


def test_half_precision_rows_are_smaller_and_train_nearly_the_same() -> None:
    full, half = make(AdaGrad(0.1), 16), make(AdaGrad(0.1), 16, dtype="float16")
    ids = np.arange(100)
    for table in (full, half):
        rows = table.locate(ids)
        for step in range(1, 30):
            grads = np.random.default_rng(step).standard_normal((100, 16)).astype(np.float32)
            table.add(rows, grads)
            table.step(1, Clock(step, step, 0))
    assert (full.width, half.width) == (32, 24)
    np.testing.assert_allclose(values(half, ids), values(full, ids), atol=2e-3)
    assert (values(half, ids) == values(half, ids).astype(np.float16)).all()


def test_statistics_tell_how_many_touches_made_rows() -> None:
    table = make()
    table.locate(np.arange(100))
    table.locate(np.arange(50, 150))
    stats = table.stats()
    assert (stats.rows, stats.touches, stats.new) == (150, 200, 150)
    assert stats.new_share == 0.75
    assert stats.bytes > 150 * 4 * 8


def test_a_table_takes_its_own_options() -> None:
    table = Table("t", 2, 1, {"kind": "constant", "value": 0.0}, SGD(1.0), ParamOptions(lr=0.25, clip=0.5))
    rows = table.locate(np.array([1]))
    table.add(rows, ones(rows, 2))
    table.step(1, Clock(1, 1, 0))
    assert (values(table, np.array([1])) == -0.125).all()


@pytest.mark.parametrize("min_count", [0, 3])
def test_ids_keep_their_rows_while_the_index_grows_under_them(min_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups, new ids, admission and a checkpoint at every stage of a move that takes many lookups."""
    monkeypatch.setattr(index, "_SOME", 512)
    monkeypatch.setattr(index, "_FIRST", 1 << 10)
    known = index.RowIndex(min_count, track_passes=True)
    random = np.random.default_rng(0)
    touches: dict[int, int] = {}
    given: dict[int, int] = {}
    moving = 0
    for _ in range(400):
        ids = np.unique(random.integers(0, 60_000, 100) * 1_000_003)
        rows = np.empty(ids.size, np.int32)
        done, new = known.touch(ids, rows, 0, 1 << 20, 1 << 20, 7)
        assert done == ids.size
        assert set(ids[new].tolist()) == (set() if min_count else set(ids.tolist()) - touches.keys())
        for number in ids.tolist():
            touches[number] = touches.get(number, 0) + 1
        if min_count:
            admitted, numbers = known.admit()
            given |= dict(zip(admitted.tolist(), numbers.tolist(), strict=True))
            assert set(given) == {number for number, count in touches.items() if count >= min_count}
        else:
            given |= dict(zip(ids[new].tolist(), rows[new].tolist(), strict=True))
            assert rows.tolist() == [given[number] for number in ids.tolist()]
        moving += known._old is not None
        some = np.array([*random.choice(list(touches), 50), 17])
        found = np.empty(some.size, np.int32)
        known.find(some, found)
        assert found.tolist() == [given.get(number, index.ABSENT) for number in some.tolist()]
    assert 20 < moving < 380
    assert len(set(given.values())) == len(given) == known.rows
    ids, rows, passes = known.sorted()
    assert dict(zip(ids.tolist(), rows.tolist(), strict=True)) == given and (passes == 7).all()
    ids, counts, _ = known.sorted_waiting()
    assert dict(zip(ids.tolist(), counts.tolist(), strict=True)) == {
        number: count for number, count in touches.items() if number not in given
    }


@pytest.mark.parametrize("limits", [{}, {"expire_after": 1}])
def test_rows_as_they_lie_hold_what_an_export_holds_and_a_child_can_give_their_memory_back(
    limits: dict[str, Any],
) -> None:
    table = make(AdaGrad(0.1), 16, **limits)
    table.locate(many_ids(40_000), pass_id=0)
    table.locate(many_ids(40_000)[::3], pass_id=1)
    table.end_pass(2)
    before = contents(table)
    lying = table.lying(release=False)
    order = np.argsort(lying.ids)
    export = table.export()
    np.testing.assert_array_equal(lying.ids[order], export.ids)
    np.testing.assert_array_equal(lying.passes[order], export.passes)
    np.testing.assert_array_equal(np.concatenate(list(lying.rows()))[order], np.concatenate(list(export.rows())))
    child = os.fork()
    if child == 0:
        written = np.concatenate([rows.copy() for rows in table.lying(release=True).rows(1 << 12)])
        os._exit(0 if written.any() and not table.memory()[1 << 12 : 1 << 13].any() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert contents(table) == before
