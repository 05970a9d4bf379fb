"""What a push survives: broken connections, busy registries, logins of every kind, a process that was killed."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oci_registry import Registry, serving
from umiak.errors import DamagedError, InputError, RetryError
from umiak.image import registry as protocol
from umiak.image.credentials import login
from umiak.image.http import Http
from umiak.image.reference import Reference, parse
from umiak.image.registry import Repository

CHUNK = 1000


@pytest.fixture
def there() -> Iterator[Registry]:
    with serving() as registry:
        yield registry


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "CHUNK", CHUNK)


def repository(there: Registry, name: str = "team/runtime", as_: tuple[str, str] | None = None) -> Repository:
    image = parse(f"{there.host}/{name}:1")
    return Repository(image, Http(image, as_, False, "pull,push"))


def blob(tmp_path: Path, size: int = 10 * CHUNK + 7) -> tuple[str, Path]:
    content = random.Random(size).randbytes(size)
    path = tmp_path / "blob"
    path.write_bytes(content)
    return f"sha256:{hashlib.sha256(content).hexdigest()}", path


@pytest.mark.parametrize("fault", [{}, {"cut": 2}, {"busy": 2}, {"forget": 1}, {"cut": 1, "busy": 1, "forget": 1}])
def test_a_blob_arrives_whole_whatever_breaks_on_the_way(
    there: Registry, tmp_path: Path, fault: dict[str, int]
) -> None:
    digest, path = blob(tmp_path)
    vars(there.state).update(fault)
    told: list[int] = []
    repository(there).upload(digest, path, told.append)
    assert there.state.blobs["team/runtime", digest] == path.read_bytes()
    assert sum(told) == path.stat().st_size and [file.name for file in tmp_path.iterdir()] == ["blob"]


def test_after_a_broken_connection_only_the_rest_is_sent(there: Registry, tmp_path: Path) -> None:
    digest, path = blob(tmp_path)
    repository(there).upload(digest, path, lambda count: None)
    whole, there.state.arrived, there.state.cut = there.state.arrived, 0, 3
    there.state.blobs.clear()
    repository(there).upload(digest, path, lambda count: None)
    # Half of each broken chunk arrived before the connection broke, and is not sent again.
    assert there.state.arrived == whole - 3 * (CHUNK // 2)


def test_an_upload_of_a_process_that_was_killed_continues(
    there: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, path = blob(tmp_path)
    sent = 0

    def killed(count: int) -> None:
        nonlocal sent
        sent += count
        if sent >= 4 * CHUNK:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repository(there).upload(digest, path, killed)
    told: list[int] = []
    there.state.arrived = 0
    repository(there).upload(digest, path, told.append)
    assert told[0] >= 3 * CHUNK and sum(told) == path.stat().st_size
    assert there.state.arrived <= path.stat().st_size - 3 * CHUNK
    assert there.state.blobs["team/runtime", digest] == path.read_bytes()


def test_a_layer_of_a_neighbour_does_not_travel(there: Registry, tmp_path: Path) -> None:
    digest, path = blob(tmp_path)
    there.state.put("library/python", path.read_bytes())
    repository(there).upload(digest, path, lambda count: None, "library/python")
    assert repository(there).has_blob(digest) and there.state.arrived == 0


def test_a_registry_that_stays_away_ends_the_push_with_75(
    there: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, path = blob(tmp_path)
    there.state.busy = 1000
    monkeypatch.setattr(protocol, "PATIENCE_SECONDS", 0.3)
    with pytest.raises(RetryError, match="run the same command again"):
        repository(there).upload(digest, path, lambda count: None)


def test_nobody_at_the_address_is_one_line(tmp_path: Path) -> None:
    image = parse("127.0.0.1:9/team/runtime:1")
    with pytest.raises(RetryError, match=r"cannot reach the registry 127\.0\.0\.1:9"):
        Repository(image, Http(image, None, False, "pull")).manifest("1")


def test_a_download_that_breaks_off_continues(there: Registry, tmp_path: Path) -> None:
    digest, path = blob(tmp_path)
    there.state.put("team/runtime", path.read_bytes())
    there.state.torn = 3
    told: list[int] = []
    repository(there).download(digest, tmp_path / "copy", told.append)
    assert (tmp_path / "copy").read_bytes() == path.read_bytes() and sum(told) == path.stat().st_size


def test_a_blob_that_is_something_else_is_refused(there: Registry, tmp_path: Path) -> None:
    digest, _ = blob(tmp_path)
    there.state.blobs["team/runtime", digest] = b"something else"
    with pytest.raises(DamagedError, match="something other"):
        repository(there).download(digest, tmp_path / "copy", lambda count: None)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_a_login_is_used_as_the_registry_asks_for_it(there: Registry, tmp_path: Path, kind: str) -> None:
    digest, path = blob(tmp_path)
    there.state.auth = kind  # type: ignore[assignment]
    repository(there, as_=("captain", "secret")).upload(digest, path, lambda count: None)
    assert repository(there, as_=("captain", "secret")).has_blob(digest)
    for who in (None, ("captain", "wrong")):
        with pytest.raises(InputError, match="docker login"):
            repository(there, as_=who).has_blob(digest)


def test_a_tag_that_may_not_move_is_named(there: Registry, tmp_path: Path) -> None:
    there.state.immutable = True
    config = there.state.put("team/runtime", b"{}")
    for number, refused in ((1, False), (2, True)):
        body = json.dumps({"config": {"digest": config}, "layers": [], "number": number}).encode()
        if not refused:
            repository(there).put_manifest("1", body, protocol.MANIFESTS[0])
            continue
        with pytest.raises(InputError, match="choose another tag"):
            repository(there).put_manifest("1", body, protocol.MANIFESTS[0])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("python", Reference("docker.io", "library/python")),
        ("umiak/runtime:0.1.0", Reference("docker.io", "umiak/runtime", "0.1.0")),
        ("localhost:5000/a/b", Reference("localhost:5000", "a/b")),
        (
            "registry.example.com/a:t@sha256:" + "0" * 64,
            Reference("registry.example.com", "a", "t", f"sha256:{'0' * 64}"),
        ),
    ],
)
def test_names_are_read_as_docker_reads_them(text: str, wanted: Reference) -> None:
    assert parse(text) == wanted


@pytest.mark.parametrize("text", ["", "Upper/case", "a b", "host.example/", "a@sha256:12", "a:tag:tag"])
def test_a_name_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not the name of an image"):
        parse(text)


@pytest.mark.slow
def test_logins_come_from_docker_s_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-box"
    helper.write_text('#!/bin/sh\nread host\necho "{\\"Username\\": \\"of $host\\", \\"Secret\\": \\"s\\"}"\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    written = {"auth": base64.b64encode(b"captain:se:cret").decode()}
    config = {
        "auths": {"r.example": written, "https://index.docker.io/v1/": written},
        "credHelpers": {"h.example": "box"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))

    def nobody(region: str) -> tuple[str, str]:
        return "AWS", region

    assert login("r.example", nobody) == login("docker.io", nobody) == ("captain", "se:cret")
    assert login("h.example", nobody) == ("of h.example", "s")
    assert login("other.example", nobody) is None
    assert login("123456789012.dkr.ecr.eu-west-1.amazonaws.com", nobody) == ("AWS", "eu-west-1")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"cannot read .*config\.json"):
        login("r.example", nobody)
