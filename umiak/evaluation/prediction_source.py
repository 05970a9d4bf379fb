"""How files to predict for are read: as the config reads its own, without columns that such files need not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from umiak.data.formats import kind, known
from umiak.data.streaming.chunks import Index
from umiak.data.streaming.reading import How
from umiak.data.streaming.source import Stream, stream
from umiak.errors import InputError
from umiak.spec.config import Config


def source_of(config: Config, paths: Sequence[str]) -> Stream:
    """The files, read as the config reads its test data, or its training data, if that is a stream."""
    like = next((each for each in (config.test, config.train) if isinstance(each, Stream)), None)
    if like is None:
        return stream(list(paths), by="record")
    endings = {kind(path.removesuffix(".zst")) for path in paths if known(path.removesuffix(".zst"))} or {like.kind}
    if len(endings) > 1:
        raise InputError(
            f"--data names files of several kinds ({', '.join(sorted(endings))}): predict one after the other"
        )
    return replace(like, paths=list(paths), kind=endings.pop(), part=None, without=())


def fitting(how: How, index: Index) -> How:
    """Without columns that the files do not have: data to predict for need not have the target."""
    if not index.schema:
        return how
    there = [*index.arrow_schema.names, *index.files[0].partitions]
    if isinstance(how.columns, Mapping):
        return replace(how, columns={name: how.columns[name] for name in how.columns if name in there})
    if how.columns is not None:
        return replace(how, columns=[name for name in how.columns if name in there])
    return replace(how, columns=_numeric(index)) if how.parse is None else how


def _numeric(index: Index) -> list[str]:
    """The columns that need no parse function."""
    from pyarrow import types

    def plain(kind: Any) -> bool:
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            return plain(kind.value_type)
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))

    return [field.name for field in index.arrow_schema if plain(field.type)]
