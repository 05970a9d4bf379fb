"""Sources behind an address: brought whole or not at all, gone on with after a cut, and cut like local ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from umiak.data import remote, shards
from umiak.errors import InputError, RetryError

TEXT = b"".join(f"sample {number:05}\n".encode() for number in range(20_000))


class Web(ThreadingHTTPServer):
    """One file, served as a test wishes."""

    content, tag = TEXT, '"one"'
    cut_after: int | None = None
    ranges = True
    length = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/files/all.txt?key=1"


class _Handler(BaseHTTPRequestHandler):
    server: Web

    def do_HEAD(self) -> None:
        self._head(200, self.server.content)

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") == self.server.tag
        part = bool(wanted) and same and self.server.ranges
        offset = int(str(wanted).removeprefix("bytes=").rstrip("-")) if part else 0
        self.server.asked.append(wanted or "all")
        body = self.server.content[offset:]
        self._head(206 if part else 200, body)
        self.wfile.write(body[: self.server.cut_after])
        self.close_connection = True

    def _head(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if self.server.length:
            self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", self.server.tag)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_file_behind_a_url_is_cut_like_a_local_one(web: Web, tmp_path: Path) -> None:
    manifest = remote.split(web.address, tmp_path / "out", 3)
    assert [manifest.of_shard(i) for i in range(3)] == [6667, 6667, 6666]
    assert shards.verify(tmp_path / "out") == manifest
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0", "1", "2", "manifest.json"]


@pytest.mark.parametrize("ranges", [True, False], ids=["with ranges", "without ranges"])
def test_a_download_that_breaks_off_goes_on_where_it_stopped(web: Web, tmp_path: Path, ranges: bool) -> None:
    web.ranges = ranges
    web.cut_after = 100_000
    with pytest.raises(RetryError, match=r"run it again to continue"):
        remote.split(web.address, tmp_path / "out", 3)
    assert not (tmp_path / "out/manifest.json").exists()
    web.cut_after = None
    assert remote.split(web.address, tmp_path / "out", 3).samples == 20_000
    assert web.asked == ["all", "bytes=100000-"]
    shards.verify(tmp_path / "out")


def test_a_file_that_changed_meanwhile_is_not_mixed_with_its_old_self(web: Web, tmp_path: Path) -> None:
    web.cut_after = 100_000
    with pytest.raises(RetryError):
        remote.split(web.address, tmp_path / "out", 3)
    web.cut_after, web.tag, web.content = None, '"two"', TEXT.upper()
    manifest = remote.split(web.address, tmp_path / "out", 3)
    assert (tmp_path / "out/0/data/all.txt").read_bytes().startswith(b"SAMPLE 00000\nSAMPLE 00003\n")
    assert manifest.samples == 20_000


def test_what_is_already_cut_is_not_brought_again(web: Web, tmp_path: Path) -> None:
    remote.split(web.address, tmp_path / "out", 3)
    remote.split(web.address, tmp_path / "out", 3)
    assert web.asked == ["all"]
    with pytest.raises(InputError, match="holds shards of other data"):
        remote.split(web.address, tmp_path / "out", 4)
    assert web.asked == ["all"], "it was brought before anybody saw that it could not be used"


@pytest.mark.parametrize(
    ("address", "told", "error"),
    [
        ("ftp://host/a.txt", "ftp:// is not known; write http://, https://, s3:// or a path", InputError),
        ("http://127.0.0.1:1/a.txt", "cannot reach http://127.0.0.1:1/a.txt", RetryError),
    ],
)
def test_bad_addresses(tmp_path: Path, address: str, told: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=told):
        remote.split(address, tmp_path / "out", 3)
    assert not (tmp_path / "out").exists()


def test_a_server_that_does_not_say_the_length_is_refused(web: Web, tmp_path: Path) -> None:
    web.length = False
    with pytest.raises(InputError, match="does not give its length"):
        remote.split(web.address, tmp_path / "out", 3)


@contextmanager
def bucket(monkeypatch: pytest.MonkeyPatch, **objects: bytes) -> Iterator[None]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="reviews")
    for name, content in objects.items():
        client.put_object(Bucket="reviews", Key=name.replace("__", "/"), Body=content)
    try:
        yield
    finally:
        client.delete_objects(
            Bucket="reviews", Delete={"Objects": [{"Key": name.replace("__", "/")} for name in objects]}
        )
        client.delete_bucket(Bucket="reviews")
        server.stop()


def test_an_object_and_a_prefix_in_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"data__train.txt": TEXT, "data__dict.txt": b"the\n", "data__train.list": b"train.txt\n", "database": b"x"}
    with bucket(monkeypatch, **names):
        assert remote.split("s3://reviews/data/train.txt", tmp_path / "one", 3).samples == 20_000
        manifest = remote.split("s3://reviews/data", tmp_path / "all", 3)
        assert [entry.path for entry in manifest.files] == ["dict.txt", "train.list", "train.txt"]
        shards.verify(tmp_path / "all")
        with pytest.raises(InputError, match="there is no such object"):
            remote.split("s3://reviews/nothing", tmp_path / "none", 3)
        with pytest.raises(InputError, match="NoSuchBucket"):
            remote.split("s3://nobody-has-this/x", tmp_path / "none", 3)


@pytest.mark.parametrize("key", ["data/../../escaped.txt", "data//etc/passwd", "data/a/./b.txt", "data/a\\b.txt"])
def test_a_key_in_s3_that_leads_out_of_the_directory_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    with (
        bucket(monkeypatch, **{"data/train.txt": TEXT, key: b"evil\n"}),
        pytest.raises(InputError, match="is not a plain file path: nothing was fetched") as refused,
    ):
        remote.split("s3://reviews/data", tmp_path / "out", 3)
    assert repr(key.removeprefix("data/")) in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["files/..", "files/%2e%2e", "", "files/a%5cb.txt", "files/a%00b"])
def test_an_address_whose_last_part_is_no_name_is_refused(web: Web, tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="is not a plain file path: nothing was fetched"):
        remote.split(f"http://127.0.0.1:{web.server_port}/{path}", tmp_path / "out", 3)
    assert not list(tmp_path.iterdir())
