"""The files of a snapshot: each has its length and checksum in model.json, whoever reads one verifies it, and all are on disk."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

import umiak
from tests.trainers import BOTH, server, train
from umiak.errors import InputError
from umiak.evaluation import evaluate
from umiak.evaluation.export import export
from umiak.spec.load import load as load_config
from umiak.spec.settings import Settings

CONFIG = """
import numpy as np
import torch
from torch import nn

import umiak
from umiak.data.columns import Columns

draw = np.random.default_rng(5)
data = Columns({"x": draw.standard_normal((64, 3)).astype(np.float32), "id": draw.integers(0, 30, 64)})


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.whole = umiak.nn.SparseEmbedding(3, 30, std=0.1)
        self.open = umiak.nn.SparseEmbedding(3)

    def forward(self, batch):
        return (self.norm(batch["x"]) * (1 + self.whole(batch["id"]) + self.open(batch["id"]))).sum(1)


config = umiak.Config(
    model=Model,
    train=data,
    test=data,
    loss=lambda output, batch: (output**2).mean(),
    optimizer=umiak.Adam(0.1),
    batch_size=16,
)
"""
DATA = {"norm.weight", "norm.bias", "whole.weight", "open.weight.service-0.safetensors", "buffers.safetensors"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "config.py"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def run(config: Path) -> Path:
    train(load_config(config, {}), config.parent / "out")
    return config.parent / "out"


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """An output directory whose snapshot a test may damage."""
    return Path(shutil.copytree(run, tmp_path / "out"))


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


def begin_with(snapshot: Path) -> None:
    config, out = load_config(snapshot.parent / "pass-00000/config.py", {}), snapshot.parent.parent
    train(config, out / "new", init_model_path=snapshot)


def go_on_after(snapshot: Path) -> None:
    train(load_config(snapshot / "config.py", {}), snapshot.parent, start_pass=1)


READERS: dict[str, Callable[[Path], object]] = {
    "load": umiak.load,
    "test": lambda snapshot: evaluate.test(Settings(init_model_path=snapshot)),
    "predict": lambda snapshot: evaluate.predict(Settings(init_model_path=snapshot), snapshot.parent / "lines"),
    "export": lambda snapshot: export(snapshot, snapshot.parent / "exported"),
    "--init_model_path": begin_with,
    "--start_pass": go_on_after,
}


def test_model_json_has_length_and_checksum_of_every_other_file(run: Path) -> None:
    snapshot = run / "pass-00000"
    model = json.loads((snapshot / "model.json").read_text())
    tables = {piece["name"]: piece for piece in model["tables"]["open.weight"]["files"]}
    found = {**model["files"], **tables}
    assert set(found) == {path.name for path in snapshot.iterdir()} - {"model.json"}
    for name, described in found.items():
        raw = (snapshot / name).read_bytes()
        assert (described["bytes"], described["crc32"]) == (len(raw), zlib.crc32(raw)), name
    assert model["format"] == 2


@pytest.mark.parametrize("name", sorted(DATA))
@pytest.mark.parametrize("reader", sorted(READERS))
def test_an_altered_value_is_never_used(copy: Path, reader: str, name: str) -> None:
    flip(copy / "pass-00000" / name)
    with pytest.raises(InputError, match=rf"{name}.* (damaged|checksum)"):
        READERS[reader](copy / "pass-00000")
    assert not any((copy / left).exists() for left in ("lines", "exported"))
    assert any(copy.glob("checkpoints/*/manifest.json")), "nothing is deleted for the sake of a damaged snapshot"


@pytest.mark.parametrize("reader", sorted(READERS))
def test_a_whole_snapshot_is_read(copy: Path, reader: str) -> None:
    READERS[reader](copy / "pass-00000")


def test_an_altered_config_is_not_run_unless_it_is_named(copy: Path) -> None:
    snapshot = copy / "pass-00000"
    (snapshot / "config.py").write_text(CONFIG + "raise SystemExit\n")
    with pytest.raises(InputError, match=r"config.py is damaged, or was changed.*\(config=\)"):
        umiak.load(snapshot)
    (snapshot / "config.py").write_text(CONFIG + "\n")
    assert isinstance(umiak.load(snapshot, snapshot / "config.py"), nn.Module)


@pytest.mark.parametrize("reader", ["load", "export"])
def test_truncated_buffers_of_version_0_1_0_are_named(copy: Path, reader: str) -> None:
    snapshot = copy / "pass-00000"
    as_0_1_0(snapshot)
    path = snapshot / "buffers.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"buffers.safetensors is damaged"):
        READERS[reader](snapshot)


def as_0_1_0(snapshot: Path) -> None:
    model = json.loads((snapshot / "model.json").read_text())
    del model["files"]
    (snapshot / "model.json").write_text(json.dumps({**model, "format": 1}))


@pytest.mark.parametrize("reader", sorted(READERS))
def test_a_snapshot_of_version_0_1_0_has_no_checksums_and_is_read_as_it_is(copy: Path, reader: str) -> None:
    as_0_1_0(copy / "pass-00000")
    flip(copy / "pass-00000" / "norm.weight")
    READERS[reader](copy / "pass-00000")


def test_a_snapshot_of_a_later_version_is_refused(copy: Path) -> None:
    model = json.loads((copy / "pass-00000/model.json").read_text())
    (copy / "pass-00000/model.json").write_text(json.dumps({**model, "format": 3}))
    with pytest.raises(InputError, match="has format 3; this version reads up to 2"):
        umiak.load(copy)


def test_the_services_refuse_an_altered_table_too(copy: Path, config: Path) -> None:
    flip(copy / "pass-00000" / "whole.weight")
    with server(2, (BOTH, BOTH)) as two, pytest.raises(InputError, match=r"whole.weight is damaged, or was changed"):
        train(load_config(config, {}), copy.parent / "new", two, init_model_path=copy / "pass-00000")


def test_every_file_of_a_run_may_be_read_by_the_same_people(run: Path) -> None:
    before = os.umask(0)
    os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in run.rglob("*") if path.is_file()}
    assert set(modes.values()) == {oct(0o666 & ~before)}, modes


def test_snapshots_and_checkpoints_are_on_the_disk_before_they_count(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was synced, and all that was renamed, in order: whatever gets its final name was synced before."""
    out, done, real, rename = tmp_path / "out", [], os.fsync, Path.rename

    def fsync(fd: int) -> None:
        done.append(re.sub(r"\.([^/]+)\.[0-9a-f]{12}$", r"\1", str(Path(f"/proc/self/fd/{fd}").readlink())))
        real(fd)

    def renamed(path: Path, target: Path) -> Path:
        done.append(f"{path} becomes {target}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", renamed)
    train(load_config(config, {}), out)
    final, draft = out / "pass-00000", out / ".pass-00000.0000"
    published = done.index(f"{draft} becomes {final}")
    for path in final.iterdir():
        assert str(draft / path.name) in done[:published], path
    assert str(draft) in done[:published], "the entries of its files"
    assert str(out) in done[published:], "its own entry"
    [directory] = out.glob("checkpoints/round-*")
    committed = done.index(str(directory / "manifest.json"))
    for path in (directory / "service-0.safetensors", directory, directory.parent, out):
        assert str(path) in done[:committed], path
    assert str(directory) in done[committed:]
