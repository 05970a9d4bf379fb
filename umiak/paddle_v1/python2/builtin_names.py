"""The names every Python 2 file can use without an import, and the operations its translation calls.

What Python 3 changed silently is here: lists from range, map and keys, whole-number division, files of byte strings.
Syntax is translation.py's part.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import math
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from umiak.paddle_v1.python2 import strings

_64_BITS = (1 << 64) - 1
_TO_TEXT = operator.methodcaller("decode", "latin-1")
_MAPPINGS = ("keys", "values", "items")
_ITERATED = {f"{prefix}{name}": name for prefix in ("iter", "view") for name in _MAPPINGS}


class File:
    """What open() gives in Python 2: lines and pieces are byte strings, in every mode."""

    def __init__(self, raw: BinaryIO, name: str = "", mode: str = "r") -> None:
        self.raw, self.name, self.mode = raw, name, mode

    def __iter__(self) -> Iterator[str]:
        return map(_TO_TEXT, self.raw)

    def __next__(self) -> str:
        return next(self.raw).decode("latin-1")

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.close()

    def __getattr__(self, name: str) -> Any:
        """close, flush, seek, tell, fileno, closed … are those of the file below."""
        return getattr(self.raw, name)

    def next(self) -> str:
        return self.__next__()

    def read(self, size: int = -1) -> str:
        return self.raw.read(size).decode("latin-1")

    def readline(self, size: int = -1) -> str:
        return self.raw.readline(size).decode("latin-1")

    def readlines(self, hint: int = -1) -> list[str]:
        return [line.decode("latin-1") for line in self.raw.readlines(hint)]

    def xreadlines(self) -> Iterator[str]:
        return iter(self)

    def write(self, text: str) -> None:
        self.raw.write(strings.to_bytes(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


def open_file(name: Any, mode: str = "r", buffering: int = -1) -> File:
    plain = mode.replace("U", "").replace("b", "").replace("t", "") or "r"
    return File(Path(_path(name)).open(f"{plain}b", buffering), str(name), mode)  # type: ignore[arg-type]


def _path(name: Any) -> Any:
    """A file name read from a file is bytes of the file system; one that was typed or listed is text."""
    if isinstance(name, str) and not name.isascii():
        try:
            raw = os.fsdecode(name.encode("latin-1"))
        except UnicodeEncodeError:
            return name
        return raw if Path(raw).exists() else name
    return name


def division(a: Any, b: Any) -> Any:
    return a // b if _whole(a) and _whole(b) else a / b


def division_in_place(a: Any, b: Any) -> Any:
    if _whole(a) and _whole(b):
        a //= b
    else:
        a /= b
    return a


def _whole(value: Any) -> bool:
    """Python's whole numbers, and NumPy's without importing it."""
    return isinstance(value, int) or getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u", "b")


def method(name: str) -> Callable[..., Any]:
    """`owner.name(…)` as a function of the owner, for a name that means something else in Python 3."""
    plain = getattr(str, name, None) if name in strings.BYTEWISE else None

    def call(owner: Any, *arguments: Any, **named: Any) -> Any:
        if type(owner) is str and plain is not None and owner.isascii():
            return plain(owner, *arguments, **named)
        if isinstance(owner, str):
            return _of_text(owner, name, arguments, named)
        if isinstance(owner, dict) and (name in _MAPPINGS or not hasattr(owner, name)):
            return _of_dict(owner, name, arguments)
        if name == "next" and not hasattr(owner, "next"):
            return next(owner)
        if name == "sort" and isinstance(owner, list):
            return owner.sort(**_sorting(*arguments, **named))
        return getattr(owner, name)(*arguments, **named)

    return call


# The methods that are called so.
METHODS = frozenset(
    {*strings.BYTEWISE, "decode", "encode", "translate", *_MAPPINGS, *_ITERATED, "has_key", "next", "sort"}
)


def _of_text(text: str, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    if name == "decode":
        return strings.decode(text, *arguments, **named)
    if name == "encode":
        return strings.encode(text, *arguments, **named)
    if name == "translate":
        return _translate(text, *arguments)
    return strings.bytewise(text, name, *arguments, **named)


def _of_dict(owner: dict[Any, Any], name: str, arguments: tuple[Any, ...]) -> Any:
    if name in _MAPPINGS:
        return list(getattr(owner, name)(*arguments))
    if name == "has_key":
        return arguments[0] in owner
    if name in _ITERATED:
        view = getattr(owner, _ITERATED[name])()
        return iter(view) if name.startswith("iter") else view
    return getattr(owner, name)(*arguments)


def _translate(text: str, table: Any, deleted: str = "") -> str:
    if isinstance(table, dict):
        return text.translate(table)
    kept = "".join(letter for letter in text if letter not in deleted)
    return kept if table is None else "".join(table[ord(letter)] for letter in kept)


def _sorting(cmp: Any = None, key: Any = None, reverse: bool = False) -> dict[str, Any]:
    if cmp is not None:
        compare = functools.cmp_to_key(cmp)
        key = compare if key is None else functools.partial(_composed, compare, key)
    return {"key": key, "reverse": bool(reverse)}


def _composed(outer: Callable[[Any], Any], inner: Callable[[Any], Any], value: Any) -> Any:
    return outer(inner(value))


def _sorted(values: Iterable[Any], cmp: Any = None, key: Any = None, reverse: bool = False) -> list[Any]:
    return sorted(values, **_sorting(cmp, key, reverse))


def _map(function: Any, *sequences: Any) -> list[Any]:
    if len(sequences) == 1:
        return list(sequences[0]) if function is None else [function(value) for value in sequences[0]]
    rows = itertools.zip_longest(*sequences)
    return list(rows) if function is None else [function(*row) for row in rows]


def _filter(function: Any, sequence: Any) -> Any:
    kept = filter(function, sequence)
    if isinstance(sequence, str):
        return "".join(kept)
    return tuple(kept) if isinstance(sequence, tuple) else list(kept)


def _round(number: float, digits: int = 0) -> float:
    scale = 10.0**digits
    return math.copysign(math.floor(abs(number) * scale + 0.5) / scale, number)


class _Print:
    """The print statement. One that ends in a comma leaves a blank to be written only if more follows on the line."""

    def __init__(self) -> None:
        self._waiting: set[int] = set()

    def __call__(self, *values: Any, end: str = "\n", file: Any = None) -> None:
        out = sys.stdout if file is None else file
        blank = " " if id(out) in self._waiting and values else ""
        self._waiting.discard(id(out))
        if end == " ":
            self._waiting.add(id(out))
            end = ""
        _write(out, blank + " ".join(map(_as_text, values)) + end)


def _print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None) -> None:
    """The print function, where a file asks for it."""
    _write(sys.stdout if file is None else file, sep.join(map(_as_text, values)) + end)


def _write(out: Any, text: str) -> None:
    out.write(text if out not in (sys.stdout, sys.stderr) else strings.shown(text))


def _as_text(value: Any) -> str:
    return ascii(value) if isinstance(value, list | tuple | dict | set) else str(value)


def _cmp(a: Any, b: Any) -> int:
    return (a > b) - (a < b)


def _int(value: Any = 0, *base: int) -> int:
    return int(value.rstrip("Ll") if isinstance(value, str) else value, *base)


def _hash(value: Any) -> int:
    """Python 2's: the same in every process, so that ids made of it are the same in every trainer and every run."""
    if isinstance(value, str):
        x = ord(value[0]) << 7 if value else 0
        for letter in value:
            x = (1000003 * x ^ ord(letter)) & _64_BITS
        return _signed(x ^ len(value))
    if type(value) is tuple:
        x, factor = 0x345678, 1000003
        for left, entry in zip(reversed(range(len(value))), value, strict=True):
            x = (x ^ _hash(entry) & _64_BITS) * factor & _64_BITS
            factor = factor + 82520 + 2 * left & _64_BITS
        return _signed(x + 97531 & _64_BITS)
    return hash(value)


def _signed(x: int) -> int:
    x = x - (1 << 64) if x >> 63 else x
    return -2 if x == -1 else x


class _Long(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def __call__(cls, value: Any = 0, *base: int) -> int:
        return _int(value, *base)


class long(metaclass=_Long):
    """Python 3 has one kind of whole numbers."""


def namespace() -> dict[str, Any]:
    """The `__builtins__` of a translated file, without `__import__`, which is modules.py's."""
    return {
        **vars(builtins),
        "__py2_div__": division,
        "__py2_idiv__": division_in_place,
        **{f"__py2_{name}__": method(name) for name in METHODS},
        "__py2_print__": _Print(),
        "__py2_unicode__": strings.decoded,
        "apply": lambda function, arguments=(), named=None: function(*arguments, **(named or {})),
        "basestring": strings.basestring,
        "bytes": str,
        "cmp": _cmp,
        "file": open_file,
        "filter": _filter,
        "hash": _hash,
        "intern": sys.intern,
        "long": long,
        "map": _map,
        "open": open_file,
        "print": _print,
        "range": lambda *ends: list(range(*ends)),
        "raw_input": input,
        "reduce": functools.reduce,
        "reload": lambda module: module,
        "repr": ascii,
        "round": _round,
        "sorted": _sorted,
        "unichr": lambda code: strings.decoded(chr(code)),
        "unicode": strings.unicode,
        "xrange": range,
        "zip": lambda *sequences: list(zip(*sequences, strict=False)),
        "StandardError": Exception,
    }
