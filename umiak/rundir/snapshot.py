"""Snapshots: the model after a pass, in the layout and byte format of 2016, readable on their own.

`done` marks a complete snapshot. `model.json`, which the original did not have, names shapes, the files of open tables, and
since format 2 length and checksum of every file: what was altered is refused. Those of the original and of umiak 0.1.0 have no
checksums and are read as they are.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from umiak.errors import DamagedError, InputError
from umiak.files import (
    atomic,
    disk_error,
    exists,
    make_directory,
    names_in,
    patiently,
    read_bytes,
    sync_directory,
    temporary_name,
    write_json,
)
from umiak.rundir import layout
from umiak.rundir.layout import BUFFERS, CONFIG_NAME, DONE, MODEL
from umiak.rundir.parameterfile import check_parameter, listed, map_parameter, read_parameter, write_parameter
from umiak.rundir.tensorfile import Piece, verify
from umiak.spec.settings import Settings

FORMAT = 2
log = logging.getLogger("umiak.rundir")


class DescribedTable(Protocol):
    """A sparse table of a model, as far as a snapshot of it is concerned."""

    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def vocab(self) -> int | None: ...


class Draft:
    """A snapshot being written, in a directory of its own beside the final one."""

    def __init__(self, out: Path, name: str, generation: int) -> None:
        """Of this generation alone, in place of what earlier ones left: their owner may still be writing into its own."""
        self.final = out / name
        self.directory = out / f".{name}.{generation:04d}"
        for left in names_in(out):
            if left.startswith(f".{name}."):
                shutil.rmtree(out / left, ignore_errors=True)
        make_directory(self.directory)

        self._files: dict[str, dict[str, int]] = {}

    def add_parameter(self, name: str, count: int, chunks: Iterable[np.ndarray]) -> None:
        piece = write_parameter(self.directory / name, count, chunks)
        self._files[name] = {"bytes": piece.bytes, "crc32": piece.crc32}

    def add(self, name: str, data: bytes) -> None:
        with atomic(self.directory / name) as file:
            file.write(data)
        self._files[name] = {"bytes": len(data), "crc32": zlib.crc32(data)}

    def publish(self, model: Mapping[str, Any], config_files: Iterable[Path], config_name: str) -> Path:
        """Finish as the original did (done, the config, path.txt), and put it in the final place."""
        self.add(DONE, b"version 0\nreal_size 4\n")
        for path in config_files:
            try:
                self.add(path.name, read_bytes(path))
            except FileNotFoundError as error:
                raise disk_error(error, path, "copy the config") from error
        self.add(CONFIG_NAME, config_name.encode())
        write_json(self.directory / MODEL, {**model, "format": FORMAT, "files": self._files})
        old = self.final.with_name(f".{self.final.name}.old")

        def rename() -> None:
            if self.directory.exists():
                if self.final.exists():
                    shutil.rmtree(old, ignore_errors=True)
                    self.final.rename(old)
                self.directory.rename(self.final)
            sync_directory(self.final.parent)

        patiently(rename, self.final, "write")
        shutil.rmtree(old, ignore_errors=True)
        return self.final


def link_best(out: Path, name: str) -> None:
    """Have `best` link to this snapshot. It is replaced in one step, and anything else of that name is left alone."""
    link = out / layout.BEST
    if exists(link) and not link.is_symlink():
        log.warning("%s is not a link, so it stays as it is; the best snapshot is %s", link, name)
        return

    def replace() -> None:
        beside = temporary_name(link)
        beside.symlink_to(name)
        beside.replace(link)
        sync_directory(out)

    patiently(replace, link, "write")


def read_model(snapshot: Path) -> dict[str, Any]:
    """What model.json says; an empty description for a snapshot of the original system."""
    if not exists(snapshot / DONE):
        raise InputError(f"{snapshot} is not a complete snapshot: it has no file `done`")
    path = snapshot / MODEL
    try:
        model = json.loads(read_bytes(path))
        if model["format"] > FORMAT:
            raise InputError(f"{path} has format {model['format']}; this version reads up to {FORMAT}")
        return dict(model)
    except FileNotFoundError:
        return {"parameters": {}, "tables": {}}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


class Contents:
    """The files of a snapshot, verified as they are read where model.json gives their checksums."""

    def __init__(self, snapshot: Path) -> None:
        self.snapshot = snapshot
        self.model = read_model(snapshot)

    def read(self, name: str) -> bytes:
        """A small file."""
        piece = self._piece(name)
        try:
            data = read_bytes(self.snapshot / name)
        except FileNotFoundError:
            raise InputError(f"{self.snapshot} has no {name}, which it had when it was written") from None
        if piece is not None and (len(data), zlib.crc32(data)) != (piece.bytes, piece.crc32):
            raise InputError(f"{self.snapshot / name} is damaged, or was changed: it is not what was written")
        return data

    def parameter(self, name: str, count: int, mapped: bool = False) -> np.ndarray:
        """The values of a parameter file, if it holds `count` of them; `mapped` into memory if few may be wanted."""
        self.check_parameter(name, count)
        piece = self._piece(name)
        try:
            return (map_parameter if mapped else read_parameter)(self.snapshot / name, count, piece)
        except DamagedError as error:
            raise InputError(str(error)) from None

    def check_parameter(self, name: str, count: int) -> None:
        """Refuse a file that is of another model; only its beginning is read."""
        path = self.snapshot / name
        if not exists(path):
            raise InputError(
                f"the snapshot {self.snapshot} has no file for parameter {name!r}: does it belong to another model?"
            )
        try:
            check_parameter(path, count)
        except DamagedError as error:
            raise InputError(str(error)) from None

    def buffers(self) -> dict[str, Any]:
        """The model's buffers by name, as tensors."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        if not exists(self.snapshot / BUFFERS) and self._piece(BUFFERS) is None:
            return {}
        try:
            return dict(load(self.read(BUFFERS)))
        except SafetensorError as error:
            raise InputError(f"{self.snapshot / BUFFERS} is damaged: {error}") from None

    def verify(self) -> None:
        """Read all of it: before something is deleted because this is there."""
        pieces = [listed(self.model, self.snapshot / name) for name in self.model.get("files", {})]
        for table in self.model["tables"].values():
            pieces += [Piece.of(piece, self.snapshot / MODEL) for piece in table.get("files", ())]
        try:
            for piece in filter(None, pieces):
                verify(self.snapshot / piece.name, piece)
        except DamagedError as error:
            raise InputError(str(error)) from None

    def check_config(self) -> None:
        """Refuse a copy of the config, or of what it imports, that is not the one that was trained."""
        others = {BUFFERS, *self.model["parameters"], *self.model["tables"]}
        for name in self.model.get("files", {}).keys() - others:
            try:
                self.read(name)
            except InputError as error:
                raise InputError(f"{error}; name the config to use it anyway (--config)") from None

    def _piece(self, name: str) -> Piece | None:
        return listed(self.model, self.snapshot / name)


def find(path: Path, pass_id: int = -1) -> Path:
    """The snapshot a user means: its own directory, or the newest (or the given) pass of an output directory."""
    if exists(path / DONE):
        return path
    if pass_id >= 0:
        wanted = path / layout.snapshot_name(pass_id)
        if exists(wanted / DONE):
            return wanted
        raise InputError(f"{path} has no complete snapshot of pass {pass_id}")
    found = [path / name for name in names_in(path) if name.startswith(layout.PASS) and exists(path / name / DONE)]
    if not found:
        raise InputError(f"{path} is neither a snapshot nor an output directory that holds one")
    # The snapshot of a whole pass is newer than those from the middle of it.
    return max(found, key=lambda snapshot: (snapshot.name[:10], len(snapshot.name) == 10, snapshot.name))


def to_load(settings: Settings) -> Path | None:
    """The snapshot a training begins with, if it is to begin with one."""
    if settings.init_model_path is not None:
        return find(settings.init_model_path)
    if settings.start_pass > 0:
        return find(settings.save_dir, settings.start_pass - 1)
    return None


def check_start(shapes: Mapping[str, tuple[int, ...]] | None, settings: Settings) -> None:
    """Refuse a snapshot that cannot be begun with before anything is written, where the shapes are known by then."""
    source = to_load(settings)
    if source is None or shapes is None:
        return
    contents = Contents(source)
    for name, shape in shapes.items():
        if not lacks(source, name, settings.load_missing_parameter_strategy):
            contents.check_parameter(name, math.prod(shape))


def lacks(snapshot: Path, name: str, missing: str) -> bool:
    """Whether a parameter's file is not there and need not be, by --load_missing_parameter_strategy."""
    return missing != "fail" and not exists(snapshot / name)


def check_tables(snapshot: Path, tables: Iterable[DescribedTable], missing: str = "fail") -> None:
    """Refuse a snapshot whose tables are not those of the model, before anybody reads their rows."""
    contents = Contents(snapshot)
    stored = contents.model["tables"]
    for table in tables:
        described = stored.get(table.name)
        if table.vocab is None and described is None:
            raise InputError(f"the snapshot {snapshot} has no open table {table.name!r}: it belongs to another model")
        if described is not None and (described["dim"], described["vocab"]) != (table.dim, table.vocab):
            raise InputError(
                f"table {table.name!r} has dim {described['dim']} and num_embeddings {described['vocab']} in the snapshot "
                f"{snapshot}, but {table.dim} and {table.vocab} in the model: it is a snapshot of another model"
            )
        if table.vocab is not None and not lacks(snapshot, table.name, missing):
            contents.check_parameter(table.name, table.vocab * table.dim)
