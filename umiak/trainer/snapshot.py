"""Snapshots: the model after a pass, in the layout and byte format of 2016, readable on their own.

One file per parameter: int32 0, uint32 4, uint64 element count, then float32 values, all little-endian. `done` marks a
complete snapshot; `model.json`, which the original did not have, names shapes and the files of open tables.
"""

from __future__ import annotations

import json
import math
import shutil
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from umiak.errors import InputError
from umiak.files import atomic, disk_error, make_directory, names_in, sync_directory, write_json
from umiak.pserver.protocol import TableSpec
from umiak.spec.settings import Settings

HEADER = struct.Struct("<iIQ")
NOT_PARAMETERS = {"done", "path.txt", "model.json", "buffers.safetensors"}


def name_of(pass_id: int, inner: int | None = None) -> str:
    return f"pass-{pass_id:05d}" + (f"-{inner:03d}" if inner is not None else "")


def write_parameter(path: Path, count: int, chunks: Iterable[np.ndarray]) -> None:
    with atomic(path) as file:
        file.write(HEADER.pack(0, 4, count))
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, "<f4").data.cast("B") if chunk.size else b"")


def read_parameter(path: Path, count: int) -> np.ndarray:
    """The values of a parameter file, mapped into memory; only if it holds `count` of them."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER.size)
            length = file.seek(0, 2)
    except FileNotFoundError:
        raise InputError(
            f"the snapshot {path.parent} has no file for parameter {path.name!r}: is it of another model?"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if len(header) < HEADER.size:
        raise InputError(f"{path} is too short for a parameter file")
    version, size, stored = HEADER.unpack(header)
    if (version, size) != (0, 4):
        raise InputError(f"{path} is not a parameter file: version {version}, value size {size}")
    if stored != count:
        raise InputError(f"{path} holds {stored} values where the model has {count}: it is a snapshot of another model")
    if length != HEADER.size + 4 * count:
        raise InputError(f"{path} is {length} bytes where {count} values take {HEADER.size + 4 * count}: it is damaged")
    return np.memmap(path, "<f4", "r", HEADER.size) if count else np.empty(0, np.float32)


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

    def publish(self, model: Mapping[str, Any], config_files: Iterable[Path], config_name: str) -> Path:
        """Finish as the original did (done, the config, path.txt last) and put it in the final place."""
        write_json(self.directory / "model.json", model)
        with atomic(self.directory / "done") as file:
            file.write(b"version 0\nreal_size 4\n")
        try:
            for path in config_files:
                shutil.copyfile(path, self.directory / path.name)
        except OSError as error:
            raise disk_error(error, self.directory) from error
        with atomic(self.directory / "path.txt") as file:
            file.write(config_name.encode())
        if self.final.exists():
            old = self.final.with_name(f".{self.final.name}.old")
            shutil.rmtree(old, ignore_errors=True)
            self.final.rename(old)
            self.directory.rename(self.final)
            shutil.rmtree(old, ignore_errors=True)
        else:
            self.directory.rename(self.final)
        sync_directory(self.final.parent)
        return self.final


def read_model(snapshot: Path) -> dict[str, Any]:
    """What model.json says; an empty description for a snapshot of the original system."""
    if not (snapshot / "done").exists():
        raise InputError(f"{snapshot} is not a complete snapshot: it has no file `done`")
    try:
        return json.loads((snapshot / "model.json").read_text())
    except FileNotFoundError:
        return {"parameters": {}, "tables": {}}
    except (OSError, ValueError) as error:
        raise InputError(f"{snapshot / 'model.json'} cannot be read: {error}") from None


def find(path: Path, pass_id: int = -1) -> Path:
    """The snapshot a user means: its own directory, or the newest (or the given) pass of an output directory."""
    if (path / "done").exists():
        return path
    if pass_id >= 0:
        wanted = path / name_of(pass_id)
        if (wanted / "done").exists():
            return wanted
        raise InputError(f"{path} has no complete snapshot of pass {pass_id}")
    found = [entry.parent for entry in path.glob("pass-*/done")]
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
    read_model(source)
    for name, shape in shapes.items():
        if not lacks(source, name, settings.load_missing_parameter_strategy):
            read_parameter(source / name, math.prod(shape))


def lacks(snapshot: Path, name: str, missing: str) -> bool:
    """Whether a parameter's file is not there and need not be, by --load_missing_parameter_strategy."""
    return missing != "fail" and not (snapshot / name).exists()


def check_tables(snapshot: Path, tables: Iterable[TableSpec], missing: str = "fail") -> None:
    """Refuse a snapshot whose tables are not those of the model, before anybody reads their rows."""
    stored = read_model(snapshot)["tables"]
    for table in tables:
        described = stored.get(table.name)
        if table.vocab is None and described is None:
            raise InputError(f"the snapshot {snapshot} has no open table {table.name!r}: it is of another model")
        if described is not None and (described["dim"], described["vocab"]) != (table.dim, table.vocab):
            raise InputError(
                f"table {table.name!r} has dim {described['dim']} and num_embeddings {described['vocab']} in the snapshot "
                f"{snapshot}, but {table.dim} and {table.vocab} in the model: it is a snapshot of another model"
            )
        if table.vocab is not None and not lacks(snapshot, table.name, missing):
            read_parameter(snapshot / table.name, table.vocab * table.dim)


def load_dense(snapshot: Path, parameters: Mapping[str, Any], model: Any, missing: str = "fail") -> None:
    """Put a snapshot's values into a model's parameters, and its buffers back.

    Where a file is missing, "rand" leaves the parameter as it was built and "zero" makes it zero.
    """
    import torch
    from safetensors.torch import load_file

    shapes = read_model(snapshot)["parameters"]
    with torch.no_grad():
        for name, parameter in parameters.items():
            if lacks(snapshot, name, missing):
                if missing == "zero":
                    parameter.zero_()
                continue
            values = read_parameter(snapshot / name, parameter.numel())
            if shapes.get(name, list(parameter.shape)) != list(parameter.shape):
                raise InputError(
                    f"parameter {name!r} is {shapes[name]} in the snapshot {snapshot}, but {list(parameter.shape)} in the "
                    "model: it is a snapshot of another model"
                )
            parameter.copy_(torch.from_numpy(values.astype(np.float32)).view(parameter.shape))
        if (snapshot / "buffers.safetensors").exists():
            stored = load_file(snapshot / "buffers.safetensors")
            for name, buffer in model.named_buffers():
                if name in stored:
                    buffer.copy_(stored[name])
