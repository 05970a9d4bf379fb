"""`umiak.data.stream` from S3: a server that speaks its protocol, also in a process that was forked, and jobs that train."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import numpy as np
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import parquet

from umiak.data import Shard, stream
from umiak.data.streaming import places
from umiak.errors import InputError

PATTERN = "s3://clicks/day=*/**/*.parquet"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedMotoServer]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="clicks")
    for day in (1, 2):
        table = pa.table({"id": np.arange(40) + 40 * (day - 1)})
        parquet.write_table(table, tmp_path / "part.parquet", row_group_size=10)
        client.upload_file(str(tmp_path / "part.parquet"), "clicks", f"day={day}/hour=3/part.parquet")
    client.put_object(Bucket="clicks", Key="day=1/notes.txt", Body=b"not data")
    yield server
    server.stop()


def read() -> list[int]:
    source = stream(PATTERN, window=16)
    return sorted(
        id_ for shard in range(3) for batch in source.batches(7, Shard(shard, 3), 5) for id_ in batch["id"].tolist()
    )


def test_objects_are_read_without_a_copy(bucket: ThreadedMotoServer) -> None:
    assert read() == list(range(80))


def test_a_forked_process_reads_after_its_parent_has(bucket: ThreadedMotoServer) -> None:
    assert read() == list(range(80))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if read() == list(range(80)) else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_not_there_and_what_has_changed_is_named(bucket: ThreadedMotoServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file matches s3://clicks/night/\*.parquet; s3://clicks/night is empty"):
        next(stream("s3://clicks/night/*.parquet").batches(7, Shard(), 5))
    with pytest.raises(InputError, match=r"there is no s3://nobody-has-this/ \(NoSuchBucket\)"):
        next(stream("s3://nobody-has-this/*.parquet").batches(7, Shard(), 5))
    source = stream(PATTERN, window=16)
    next(source.batches(7, Shard(), 5))
    boto3.client("s3").put_object(Bucket="clicks", Key="day=2/hour=3/part.parquet", Body=b"other")
    with pytest.raises(InputError, match=r"day=2/hour=3/part.parquet has changed since this run began"):
        list(source.batches(7, Shard(), 5))


def test_the_second_pass_reads_from_the_disk_and_an_altered_copy_is_fetched_again(
    bucket: ThreadedMotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_pass() -> list[int]:
        source = stream(PATTERN, window=16, cache="10MB")
        return sorted(id_ for batch in source.batches(7, Shard(), 5) for id_ in batch["id"].tolist())

    fetched: list[int] = []
    get = places._Object._get

    def counted(self: places._Object, begin: int, end: int) -> bytes:
        fetched.append(begin)
        return get(self, begin, end)

    monkeypatch.setattr(places._Object, "_get", counted)
    assert one_pass() == list(range(80))
    first = len(fetched)
    assert one_pass() == list(range(80))
    assert len(fetched) == first, "nothing is fetched twice"
    kept = next(path for path in (tmp_path / "cache" / "umiak" / "data" / "objects").glob("*/*"))
    kept.write_bytes(kept.read_bytes()[:-1])
    assert one_pass() == list(range(80))
    assert len(fetched) == first + 1
