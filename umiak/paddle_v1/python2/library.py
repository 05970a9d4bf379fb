"""Modules of Python 2's library that Python 3 renamed, removed, or made stricter about bytes, by their old names.

Each is made when it is first imported, as today's module with the old names on top. Modules that are not here are today's.
"""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from umiak.paddle_v1.python2 import strings
from umiak.paddle_v1.python2.builtin_names import File, open_file

# Old name, and the module of today that has what it had.
_MOVED = {
    "ConfigParser": "configparser",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "SocketServer": "socketserver",
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "httplib": "http.client",
    "thread": "_thread",
    "urlparse": "urllib.parse",
}


class OldModule(ModuleType):
    """Today's module with the old names on top; what is set on it is set on today's, as on sys.stdout."""

    def __init__(self, name: str, today: ModuleType, names: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__dict__["_today"] = today
        self.__dict__.update({key: value for key, value in vars(today).items() if not key.startswith("__")})
        self.__dict__.update(names)
        if not hasattr(today, "__path__"):
            self.__dict__["__all__"] = [key for key in self.__dict__ if not key.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_today"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value
        setattr(self.__dict__["_today"], name, value)


def find(name: str) -> ModuleType | None:
    """A module by its old name, or None if today's of that name will do. pickle is pickles.py's."""
    if name in _MOVED:
        return OldModule(name, importlib.import_module(_MOVED[name]), {})
    if name not in _MAKERS:
        return None
    today, names = _MAKERS[name]()
    return OldModule(name, today, names)


class _StringIO(io.StringIO):
    """In memory what open() gives."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text, newline="\n")


def _string_io() -> tuple[ModuleType, dict[str, Any]]:
    return io, {"StringIO": _StringIO}


class _Decoded:
    """A file of decoded text: what codecs.open and io.open give."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __iter__(self) -> Any:
        return map(strings.decoded, self._file)

    def __enter__(self) -> _Decoded:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if name not in ("read", "readline", "readlines", "next"):
            return found
        return lambda *arguments: strings.decoded(found(*arguments))


def _codecs() -> tuple[ModuleType, dict[str, Any]]:
    import codecs

    def opened(name: Any, mode: str = "r", encoding: str | None = None, *more: Any) -> Any:
        return open_file(name, mode) if encoding is None else _Decoded(codecs.open(name, mode, encoding, *more))

    return codecs, {"open": opened}


def _io() -> tuple[ModuleType, dict[str, Any]]:
    def opened(name: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        return open_file(name, mode) if "b" in mode else _Decoded(Path(name).open(mode, *more, **named))

    return io, {"open": opened}


def _itertools() -> tuple[ModuleType, dict[str, Any]]:
    import itertools

    return itertools, {"izip": zip, "imap": map, "ifilter": filter, **_renamed(itertools, "zip_longest", "filterfalse")}


def _renamed(module: ModuleType, *names: str) -> dict[str, Any]:
    return {f"i{name}": getattr(module, name) for name in names}


def _collections() -> tuple[ModuleType, dict[str, Any]]:
    import collections
    import collections.abc

    return collections, {name: getattr(collections.abc, name) for name in collections.abc.__all__}


def _sys() -> tuple[ModuleType, dict[str, Any]]:
    import sys

    return sys, {"maxint": 2**63 - 1, "setdefaultencoding": lambda name: None, "exc_clear": lambda: None}


def _os() -> tuple[ModuleType, dict[str, Any]]:
    import os

    return os, {"getcwdu": os.getcwd}


def _string() -> tuple[ModuleType, dict[str, Any]]:
    import string

    def method(name: str) -> Callable[..., Any]:
        return lambda text, *arguments: strings.bytewise(text, name, *arguments)

    names = ("split", "strip", "lstrip", "rstrip", "lower", "upper", "replace", "find", "rfind", "count", "zfill")
    old = {name: method(name) for name in names}

    def maketrans(before: str, after: str) -> str:
        table = [chr(code) for code in range(256)]
        for a, b in zip(before, after, strict=True):
            table[ord(a)] = b
        return "".join(table)

    return string, {
        **old,
        "letters": string.ascii_letters,
        "lowercase": string.ascii_lowercase,
        "uppercase": string.ascii_uppercase,
        "join": lambda words, between=" ": between.join(words),
        "atoi": int,
        "atol": int,
        "atof": float,
        "maketrans": maketrans,
    }


def _types() -> tuple[ModuleType, dict[str, Any]]:
    import types

    return types, {
        "StringType": str,
        "UnicodeType": strings.unicode,
        "StringTypes": (str,),
        "IntType": int,
        "LongType": int,
        "FloatType": float,
        "BooleanType": bool,
        "ListType": list,
        "TupleType": tuple,
        "DictType": dict,
        "NoneType": type(None),
    }


def _urllib() -> tuple[ModuleType, dict[str, Any]]:
    import urllib.error
    import urllib.parse
    import urllib.request

    def urlopen(*arguments: Any, **named: Any) -> File:
        return File(urllib.request.urlopen(*arguments, **named))

    return urllib.request, {
        **{
            name: getattr(urllib.parse, name)
            for name in ("quote", "quote_plus", "unquote", "unquote_plus", "urlencode")
        },
        "urlopen": urlopen,
        "URLError": urllib.error.URLError,
        "HTTPError": urllib.error.HTTPError,
    }


def _compressed(name: str, opened: str) -> Callable[[], tuple[ModuleType, dict[str, Any]]]:
    def make() -> tuple[ModuleType, dict[str, Any]]:
        module = importlib.import_module(name)

        def opener(file: Any, mode: str = "rb", *arguments: Any, **named: Any) -> File:
            binary = mode if "b" in mode else f"{mode}b"
            return File(getattr(module, opened)(file, binary, *arguments, **named), str(file), mode)

        return module, {"open": opener, opened: opener, **_bytewise(module, "compress", "decompress")}

    return make


def _bytewise(module: ModuleType, *names: str) -> dict[str, Any]:
    """Functions that take and give bytes, for byte strings."""

    def adapted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            given = [value.encode("latin-1") if isinstance(value, str) else value for value in arguments]
            return _texts(function(*given, **named))

        return call

    return {name: adapted(getattr(module, name)) for name in names}


def _texts(value: Any) -> Any:
    if isinstance(value, bytes):
        return strings.to_text(value)
    return tuple(map(_texts, value)) if type(value) is tuple else value


def _of_bytes(name: str, *names: str) -> Callable[[], tuple[ModuleType, dict[str, Any]]]:
    def make() -> tuple[ModuleType, dict[str, Any]]:
        module = importlib.import_module(name)
        return module, _bytewise(module, *names)

    return make


class _Hash:
    def __init__(self, kind: str, text: str = "") -> None:
        import hashlib

        self._hash = hashlib.new(kind, strings.to_bytes(text))

    def update(self, text: str) -> None:
        self._hash.update(strings.to_bytes(text))

    def digest(self) -> str:
        return strings.to_text(self._hash.digest())

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _hashlib() -> tuple[ModuleType, dict[str, Any]]:
    import functools
    import hashlib

    names = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
    return hashlib, {name: functools.partial(_Hash, name) for name in names} | {"new": _Hash}


def _md5() -> tuple[ModuleType, dict[str, Any]]:
    today, names = _hashlib()
    return today, {"new": names["md5"], "md5": names["md5"]}


def _json() -> tuple[ModuleType, dict[str, Any]]:
    import json

    def loads(text: Any, **named: Any) -> Any:
        return _decoded(json.loads(strings.to_bytes(text) if type(text) is str else text, **named))

    return json, {"loads": loads, "load": lambda file, **named: loads(file.read(), **named)}


def _decoded(value: Any) -> Any:
    """Texts of a JSON file are decoded text."""
    if isinstance(value, dict):
        return {_decoded(key): _decoded(entry) for key, entry in value.items()}
    return [_decoded(entry) for entry in value] if isinstance(value, list) else strings.decoded(value)


def _re() -> tuple[ModuleType, dict[str, Any]]:
    """On byte strings \\w, \\s and case mean ASCII, unless re.UNICODE is asked for."""

    def flags_of(pattern: Any, flags: int) -> int:
        known = isinstance(pattern, re.Pattern) or type(pattern) is strings.unicode
        return flags if known or flags & re.UNICODE or "(?u" in pattern else flags | re.ASCII

    def compiled(pattern: Any, flags: int = 0) -> re.Pattern[str]:
        return re.compile(pattern, flags_of(pattern, flags))

    def using(name: str, flags_at: int) -> Callable[..., Any]:
        def call(pattern: Any, *arguments: Any, flags: int = 0) -> Any:
            given = arguments[flags_at] if len(arguments) > flags_at else flags
            return getattr(compiled(pattern, given), name)(*arguments[:flags_at])

        return call

    one = {name: using(name, 1) for name in ("match", "search", "findall", "finditer")}
    return re, {
        **one,
        "split": using("split", 2),
        "sub": using("sub", 3),
        "subn": using("subn", 3),
        "compile": compiled,
    }


_MAKERS: dict[str, Callable[[], tuple[ModuleType, dict[str, Any]]]] = {
    "StringIO": _string_io,
    "base64": _of_bytes("base64", "b64encode", "b64decode", "urlsafe_b64encode", "urlsafe_b64decode"),
    "binascii": _of_bytes("binascii", "hexlify", "unhexlify", "crc32"),
    "bz2": _compressed("bz2", "BZ2File"),
    "cStringIO": _string_io,
    "codecs": _codecs,
    "collections": _collections,
    "gzip": _compressed("gzip", "GzipFile"),
    "hashlib": _hashlib,
    "io": _io,
    "itertools": _itertools,
    "json": _json,
    "md5": _md5,
    "os": _os,
    "re": _re,
    "string": _string,
    "struct": _of_bytes("struct", "pack", "unpack", "calcsize", "unpack_from"),
    "sys": _sys,
    "types": _types,
    "urllib": _urllib,
    "urllib2": _urllib,
    "zlib": _of_bytes("zlib", "compress", "decompress", "crc32", "adler32"),
}
