"""A server touches only its own directories, whatever a trainer with a valid token asks for."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.served import Served, served
from umiak.errors import InputError, UmiakError, described
from umiak.pserver.codec import Restore
from umiak.pserver.host import Host
from umiak.pserver.protocol import ServiceSpec, TableSpec
from umiak.pserver.reach import Reach
from umiak.spec.optim import SGD, to_json
from umiak.trainer.services import RemoteService
from umiak.wire.frames import Kind

SECRET = np.arange(8, dtype=np.float32)
INIT = {"kind": "normal", "mean": 0.0, "std": 0.1}


def spec(name: str = "t", vocab: int | None = None) -> ServiceSpec:
    table = TableSpec(name, 1, INIT, vocab)
    return ServiceSpec(0, 1, 1, 1, to_json(SGD(lr=1.0)), {}, [("w", 0, 4)], [table], 0, 1)


def setup(server: Served, described: ServiceSpec, restore: Restore | None = None) -> RemoteService:
    service = RemoteService(server.join(count=1))
    service.setup(described, np.zeros(4, np.float32), restore)
    service.ready()
    return service


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """The root of a server, and a directory beside it with a file that could be a table."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "pass-00000").mkdir(parents=True)
    outside.mkdir()
    (outside / "t").write_bytes(struct.pack("<IIQ", 0, 4, SECRET.size) + SECRET.tobytes())
    return root, outside


def host(root: Path, *sources: Path) -> Host:
    return Host("here", None, 1, 1, 0, Reach(root, sources))


@pytest.mark.parametrize("way", ["absolute", "dots", "link"])
def test_a_table_is_not_read_from_a_foreign_directory(places: tuple[Path, Path], way: str) -> None:
    root, outside = places
    (root / "link").symlink_to(outside)
    directory = {"absolute": outside, "dots": root / ".." / "outside", "link": root / "link"}[way]
    with served(host(root)) as server:
        for kind in ("snapshot", "checkpoint"):
            with pytest.raises(
                InputError, match=f"{directory} is outside {root}, and this server touches nothing else"
            ):
                setup(server, spec(vocab=8), Restore(kind, str(directory), continues=False))
    with served(host(root, outside)) as server:
        setup(server, spec(vocab=8), Restore("snapshot", str(outside), continues=False)).close()


def test_a_table_is_not_read_through_a_link_in_a_snapshot(places: tuple[Path, Path]) -> None:
    root, outside = places
    source = Restore("snapshot", str(root / "pass-00000"), continues=False)
    (root / "pass-00000" / "t").symlink_to(outside / "t")
    with served(host(root)) as server, pytest.raises(InputError, match="pass-00000/t leads out of its directory"):
        setup(server, spec(vocab=8), source)


@pytest.mark.parametrize("name", ["../../outside/x", "/etc/passwd", "..", "", 7])
def test_a_manifest_cannot_name_a_foreign_piece(places: tuple[Path, Path], name: object) -> None:
    root, _ = places
    piece = {"name": name, "bytes": 8, "crc32": 0}
    (root / "pass-00000" / "manifest.json").write_text(json.dumps({"pieces": [piece]}))
    (root / "pass-00000" / "model.json").write_text(json.dumps({"tables": {"t": {"vocab": None, "files": [piece]}}}))
    with served(host(root)) as server:
        for kind in ("snapshot", "checkpoint"):
            with pytest.raises(InputError, match=r"names the file .*, which is not a plain file name"):
                setup(server, spec(), Restore(kind, str(root / "pass-00000"), continues=False))


@pytest.mark.parametrize("name", ["../outside/t", "a/b", "a\\b", "..", ".", "", "a\0b", "x" * 300])
def test_names_are_checked_when_they_arrive(places: tuple[Path, Path], name: str) -> None:
    root, _ = places
    with served(host(root)) as server:
        for wrong in (spec(name), replace(spec(), blocks=[(name, 0, 4)])):
            with pytest.raises(InputError, match="cannot be the name of a parameter"):
                setup(server, wrong)
        with pytest.raises(UmiakError):
            setup(server, replace(spec(), index="0/../../outside/x"))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["absolute", "dots", "link"])
@pytest.mark.parametrize("kind", [Kind.CHECKPOINT, Kind.SNAPSHOT])
def test_nothing_is_written_to_a_foreign_directory(places: tuple[Path, Path], kind: Kind, way: str) -> None:
    root, outside = places
    (root / "link").symlink_to(outside)
    directory = {"absolute": outside, "dots": root / "pass-00000" / "../../outside", "link": root / "link"}[way]
    with served(host(root, outside)) as server:
        service = setup(server, spec())
        service.channel.send(kind, {"directory": str(directory)}, [b"mine"])
        with pytest.raises(InputError, match=f"is outside {root}"):
            raise_error(service)
        service = setup(server, spec())
        service.channel.send(kind, {"directory": str(root / "pass-00000")}, [b"mine"])
        assert service.channel.receive().kind is Kind.DONE
        service.close()
    assert [path.name for path in outside.iterdir()] == ["t"]
    assert len(list((root / "pass-00000").glob("*.safetensors"))) == 1


def raise_error(service: RemoteService) -> None:

    raise described(service.channel.receive().json())
