"""`umiak.data.stream` from an S3 that is slow, throttles, breaks off or refuses: a bounded retry, or one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from umiak.bench.peers import s3
from umiak.bench.peers.s3 import Conduct, Fault
from umiak.data import Shard, stream
from umiak.data.streaming import places
from umiak.errors import InputError, RetryError

pytestmark = pytest.mark.slow

PATTERN = "s3://clicks/*.parquet"
ROWS = 600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    directory = tmp_path_factory.mktemp("objects")
    for number in range(3):
        ids = np.arange(number * 200, (number + 1) * 200)
        parquet.write_table(pa.table({"id": ids}), directory / f"{number}.parquet", row_group_size=25)
    (directory / "lines.jsonl").write_text("".join(f'{{"id": {i}}}\n' for i in range(300)))
    with s3.moto() as address:
        s3.upload(address, "clicks", {path.name: path for path in directory.iterdir()})
        yield address


@pytest.fixture
def conduct(server: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Conduct]:
    """What the proxy does; the client asks there."""
    behaviour = Conduct()
    with s3.proxy(server, behaviour) as port:
        for name, value in {**s3.environment(port), "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(name, value)
        yield behaviour


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two attempts instead of ten: the pauses between them grow to twenty seconds."""
    monkeypatch.setattr(places, "S3_ATTEMPTS", 2)
    places._client.cache_clear()
    yield
    places._client.cache_clear()


def read(source: Any = None, shards: int = 1, seed: int | None = 3) -> list[int]:
    source = source or stream(PATTERN, window=60)
    return sorted(
        id_
        for shard in range(shards)
        for batch in source.batches(10, Shard(shard, shards), seed)
        for id_ in batch["id"].tolist()
    )


@pytest.mark.parametrize("fault", ["throttled", "broken", "cut"])
def test_what_fails_for_a_moment_is_asked_again_and_no_row_is_lost(fault: Fault, conduct: Conduct) -> None:
    source = stream(PATTERN, window=60)
    assert source.index.rows.sum() == ROWS
    conduct.faults = [fault]
    assert read(source) == list(range(ROWS))
    assert [each.fault for each in conduct.seen].count(fault) == 1
    # With nothing to read from the cache of the machine, listing and footers meet it as well.
    conduct.faults = [fault]
    assert read(stream("s3://clicks/lines.jsonl")) == list(range(300))


def test_throttling_that_does_not_end_is_tried_again_later(conduct: Conduct, impatient: None) -> None:
    source = stream(PATTERN, window=60)
    assert source.index
    conduct.always = "throttled"
    with pytest.raises(
        RetryError, match=r"cannot read s3://clicks/\d.parquet \(.*SlowDown.*\); try again when S3 answers"
    ):
        read(source)
    assert RetryError.exit_code == 75
    conduct.always = None
    assert read(source) == list(range(ROWS)), "the same source continues when S3 answers again"


@pytest.mark.parametrize("fault", ["expired", "denied"])
def test_credentials_that_are_refused_are_the_users_to_renew(fault: Fault, conduct: Conduct) -> None:
    source = stream(PATTERN, window=60)
    assert source.index
    conduct.always = fault
    begun = len(conduct.seen)
    with pytest.raises(InputError, match=r"S3 refuses s3://clicks/.*: renew the credentials, or allow them"):
        read(source)
    assert len(conduct.seen) - begun <= places.S3_ATTEMPTS * 3, "nobody knocks for ever"
    with pytest.raises(InputError, match=r"S3 refuses s3://clicks/"):
        read(stream("s3://clicks/*.csv", columns=["id"]))


def test_an_object_that_is_cut_off_again_and_again_ends_with_an_error_that_names_it(conduct: Conduct) -> None:
    source = stream(PATTERN, window=60)
    assert source.index
    conduct.always = "cut"
    with pytest.raises(RetryError, match=r"cannot read s3://clicks/\d.parquet"):
        read(source)


def test_every_byte_is_fetched_once_in_a_pass_but_for_chunks_on_a_border(conduct: Conduct) -> None:
    source = stream(PATTERN, window=60)
    assert source.index
    conduct.seen.clear()
    shards = 4
    assert read(source, shards) == list(range(ROWS))
    # Each of the three files is so small that its footer is fetched as a whole file, from its first byte on.
    groups = [(each.key, each.begin, each.end) for each in conduct.fetched() if each.begin]
    assert len(set(groups)) == ROWS // 25
    assert len(groups) - len(set(groups)) <= shards - 1, "a border between two shards cuts one chunk"


def test_a_shard_is_opened_in_the_middle_of_a_pass_by_reading_one_window(conduct: Conduct) -> None:
    source = stream(PATTERN, window=60)
    first = next(source.batches(10, Shard(1, 2), 3, start=23))
    conduct.seen.clear()
    again = next(stream(PATTERN, window=60).batches(10, Shard(1, 2), 3, start=23))
    assert first["id"].tolist() == again["id"].tolist()
    groups = [each for each in conduct.fetched() if each.begin]
    # A window of 60 rows touches at most four row groups of 25; the one after it is read ahead.
    assert len(groups) <= 2 * 4 + 3


def test_a_hundred_thousand_objects_are_listed_and_a_pattern_without_match_says_what_there_is(conduct: Conduct) -> None:
    count = 100_000
    conduct.listings = {"many": sorted(f"day={number % 10}/{number:06}.parquet" for number in range(count))}
    files = places.found(["s3://many/**/*.parquet"])
    assert len(files) == len({file.path for file in files}) == count
    assert len(conduct.seen) == count // 1000, "a request for every thousand"
    with pytest.raises(InputError, match=r"s3://many/ holds day=0/000000.parquet, .* and at least 997 more"):
        places.found(["s3://many/*.csv"])
    conduct.seen.clear()
    places._there("s3://many/*.csv")
    assert len(conduct.seen) == 1, "to say what there is, one request is enough"
