"""Python 2's two kinds of text on Python 3's one. What a translated file does with strings comes through here.

A byte string is a str with one character per byte (Latin-1), so that lengths, slices, words of files and keys of pickles
are those of 2016; text is `unicode`, a str that remembers that it was decoded. Only characters beyond ASCII tell them
apart, so plain ASCII takes the short way.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

# Methods that treat bytes otherwise than characters: 0x85 and 0xA0 are no blanks, and only ASCII has case.
BYTEWISE = (
    *(
        "split",
        "rsplit",
        "strip",
        "lstrip",
        "rstrip",
        "splitlines",
        "lower",
        "upper",
        "title",
        "capitalize",
        "swapcase",
    ),
    *("isalpha", "isdigit", "isalnum", "isspace", "islower", "isupper", "istitle"),
)
_TO_BYTES = ("hex", "base64", "zlib", "bz2", "quopri", "uu")
# The methods of str that give pieces of the text; on `unicode` the pieces are `unicode` again.
_GIVES_TEXT = (
    *(
        "__add__",
        "__mod__",
        "__mul__",
        "__rmul__",
        "__getitem__",
        "capitalize",
        "center",
        "expandtabs",
        "format",
        "join",
    ),
    *("ljust", "lower", "lstrip", "partition", "replace", "rjust", "rpartition", "rsplit", "rstrip", "split"),
    *("splitlines", "strip", "swapcase", "title", "translate", "upper", "zfill"),
)


class _Text(type):
    """`unicode(x, "utf-8")` decodes, as in Python 2."""

    def __call__(cls, value: Any = "", encoding: str | None = None, errors: str = "strict") -> Any:
        if encoding is not None:
            return decode(value, encoding, errors)
        return super().__call__(value)


class unicode(str, metaclass=_Text):
    __slots__ = ()

    def __radd__(self, other: str) -> unicode:
        return decoded(str.__add__(other, self))

    def __iter__(self) -> Any:
        return map(decoded, str.__iter__(self))

    def __reduce__(self) -> Any:
        return decoded, (str(self),)


def decoded(value: Any) -> Any:
    """The same text, remembered as decoded; lists and tuples of it likewise."""
    if type(value) is str:
        return str.__new__(unicode, value)
    if isinstance(value, list | tuple):
        return type(value)(map(decoded, value))
    return value


def _marking(name: str) -> Callable[..., Any]:
    plain = getattr(str, name)

    def method(self: unicode, *arguments: Any, **named: Any) -> Any:
        return decoded(plain(self, *arguments, **named))

    method.__name__ = name
    return method


for _name in _GIVES_TEXT:
    setattr(unicode, _name, _marking(_name))


class _Basestring(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, str)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, str)


class basestring(metaclass=_Basestring):
    """What both kinds of text are."""


def to_bytes(text: str | bytes) -> bytes:
    """The bytes a byte string stands for."""
    return text.encode("latin-1") if isinstance(text, str) else bytes(text)


def to_text(data: bytes) -> str:
    """The byte string that stands for these bytes."""
    return data.decode("latin-1")


def bytewise(text: str, name: str, *arguments: Any, **named: Any) -> Any:
    """A method of a byte string."""
    if not text.isascii() and type(text) is str:
        try:
            return _back(getattr(text.encode("latin-1"), name)(*map(_forth, arguments), **named))
        except UnicodeEncodeError:
            pass  # decoded text that lost its mark
    return getattr(text, name)(*arguments, **named)


def decode(text: Any, encoding: str = "ascii", errors: str = "strict") -> Any:
    """`text.decode(encoding)`; what is not a str has a method of its own."""
    if not isinstance(text, str):
        return text.decode(encoding, errors)
    if encoding.replace("_codec", "") in _TO_BYTES:
        return to_text(codecs.lookup(encoding).decode(to_bytes(text), errors)[0])  # type: ignore[arg-type]
    if type(text) is unicode:
        return decoded(text.encode("ascii", errors).decode(encoding, errors))
    return decoded(to_bytes(text).decode(encoding, errors))


def encode(text: Any, encoding: str = "ascii", errors: str = "strict") -> Any:
    if not isinstance(text, str):
        return text.encode(encoding, errors)
    if encoding.replace("_codec", "") in _TO_BYTES:
        return to_text(codecs.lookup(encoding).encode(to_bytes(text), errors)[0])  # type: ignore[arg-type]
    if type(text) is str and text.isascii():
        return text
    return to_text(text.encode(encoding, errors))


def shown(text: str) -> str:
    """A text for the screen: bytes that are UTF-8 as the characters they mean."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _forth(value: Any) -> Any:
    return value.encode("latin-1") if isinstance(value, str) else value


def _back(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return list(map(_back, value)) if isinstance(value, list) else value
