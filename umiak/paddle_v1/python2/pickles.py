"""pickle and cPickle of Python 2: byte strings in pickles of 2016 become byte strings here."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

from umiak.paddle_v1.python2 import strings
from umiak.paddle_v1.python2.builtin_names import File
from umiak.paddle_v1.python2.library import OldModule


def pickling(load_class: Callable[[str, str], Any]) -> ModuleType:
    """The module. `load_class` finds classes that are in files beside the config."""

    class Unpickler(pickle.Unpickler):
        def __init__(self, file: Any) -> None:
            super().__init__(_raw(file), encoding="latin-1")

        def find_class(self, module: str, name: str) -> Any:
            try:
                return super().find_class(module, name)
            except (ImportError, AttributeError):
                return load_class(module, name)

    class Pickler(pickle.Pickler):
        def __init__(self, file: Any, protocol: int = 0) -> None:
            super().__init__(_raw(file), min(2, protocol) if protocol >= 0 else 2)

    def dumps(value: Any, protocol: int = 0) -> str:
        out = io.BytesIO()
        Pickler(out, protocol).dump(value)
        return strings.to_text(out.getvalue())

    names = {
        "Unpickler": Unpickler,
        "Pickler": Pickler,
        "load": lambda file: Unpickler(file).load(),
        "loads": lambda text: Unpickler(io.BytesIO(strings.to_bytes(text))).load(),
        "dump": lambda value, file, protocol=0: Pickler(file, protocol).dump(value),
        "dumps": dumps,
    }
    return OldModule("cPickle", pickle, names)


class _Bytes:
    """A file of byte strings, as pickle wants it."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def read(self, size: int = -1) -> bytes:
        return strings.to_bytes(self.file.read(size))

    def readline(self) -> bytes:
        return strings.to_bytes(self.file.readline())

    def write(self, data: bytes) -> None:
        self.file.write(strings.to_text(bytes(data)))


def _raw(file: Any) -> Any:
    if isinstance(file, File):
        return file.raw
    return _Bytes(file) if isinstance(file, io.TextIOBase) else file
