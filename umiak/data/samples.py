"""What a sample may hold, checked as samples arrive so that an error can name them. Tables are columns.py's work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from umiak.errors import InputError

CHUNK = 65_536
"""How many samples are held as Python objects before they become arrays."""

_WHOLE = (int, np.integer, np.bool_)
_REAL = (float, np.floating)


@dataclass
class Field:
    """What the first samples said about one field; `real` is unknown while all its lists were empty."""

    ragged: bool
    shape: tuple[int, ...] | None
    real: bool | None


class Schema:
    """The fields of a source, taken from its first sample; every later sample must have the same."""

    def __init__(self) -> None:
        self.fields: dict[str, Field] = {}

    def dtype(self, name: str) -> type[np.generic]:
        return np.float32 if self.fields[name].real else np.int64

    def check(self, sample: object, where: str) -> None:
        """Refuse a sample that is unlike the ones before; `where` says which: its number, or its file and line."""
        if not isinstance(sample, Mapping):
            raise InputError(f"{where} is {_told(sample)}; yield a dict such as {{'words': [3, 7], 'label': 1}}")
        if not self.fields:
            if not sample:
                raise InputError(f"{where} has no fields")
            for name, value in sample.items():
                if not isinstance(name, str):
                    raise InputError(f"{where}: field names are text, not {name!r}")
                self.fields[name] = _describe(value, name, where)
            return
        if sample.keys() != self.fields.keys():
            missing = sorted(self.fields.keys() - sample.keys())
            extra = sorted(map(str, sample.keys() - self.fields.keys()))
            told = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"also has {', '.join(extra)}"] * bool(extra)
            raise InputError(f"{where} {' and '.join(told)}; every sample has the fields of the first one")
        for name, field in self.fields.items():
            self._compare(field, _describe(sample[name], name, where), name, where)

    @staticmethod
    def _compare(field: Field, new: Field, name: str, where: str) -> None:
        if (new.ragged, new.shape) != (field.ragged, field.shape):
            raise InputError(
                f"field {name!r} of {where} is {_kind(new)}, but it was {_kind(field)} in the first sample; "
                "a list may differ in length from sample to sample, an array or a number may not"
            )
        if field.real is None:
            field.real = new.real
        elif new.real and not field.real:
            raise InputError(
                f"field {name!r} of {where} is fractional, but it was whole in earlier samples; "
                "write float(…) around it in every sample"
            )


def _describe(value: Any, name: str, where: str) -> Field:
    if isinstance(value, _WHOLE):
        return Field(False, (), False)
    if isinstance(value, _REAL):
        return Field(False, (), True)
    if isinstance(value, np.ndarray) and value.dtype.kind in "buif":
        return Field(False, value.shape, value.dtype.kind == "f")
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        if all(issubclass(kind, _WHOLE) for kind in kinds):
            return Field(True, None, False if value else None)
        if all(issubclass(kind, _WHOLE + _REAL) for kind in kinds):
            return Field(True, None, True)
        odd = next(entry for entry in value if not isinstance(entry, _WHOLE + _REAL))
        raise InputError(f"field {name!r} of {where} is a list that holds {_told(odd)}; use numbers only")
    raise InputError(
        f"field {name!r} of {where} is {_told(value)}; a field is a number, a list of numbers (any length) or "
        "a NumPy array of numbers (one shape for all samples)"
    )


def _kind(field: Field) -> str:
    if field.ragged:
        return "a list"
    return f"an array of shape {field.shape}" if field.shape else "a number"


def _told(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.40}"
