"""Every error a user can see. A message says what is wrong, where, and what to do; the class decides the exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class UmiakError(Exception):
    """The base of all errors; on its own, a defect or an unexpected state of the machine."""

    exit_code = 1


class InputError(UmiakError):
    """Something you wrote is wrong: a flag, a config, a file. Without a change, you get the same error again."""

    exit_code = 2


class RetryError(UmiakError):
    """A peer or a resource went away. The same command may succeed once it is back."""

    exit_code = 75


class StorageError(RetryError):
    """A disk or volume failed for a while. It says nothing about the files there, which may well be whole."""


class ReplacedError(RetryError):
    """Another process has taken the place of this one, which must not come back."""


class DamagedError(UmiakError):
    """A file that is not what was written: of another length or content, or gone. An older one may be whole."""

    exit_code = 75


def describe(error: UmiakError) -> dict[str, Any]:
    """An error as it travels to another process."""
    return {"kind": type(error).__name__, "message": str(error), "exit_code": error.exit_code}


def described(value: Mapping[str, Any]) -> UmiakError:
    """The error that `describe` gave, of its own class where that is one of these."""
    kinds = (InputError, RetryError, StorageError, ReplacedError, DamagedError)
    kind = {c.__name__: c for c in kinds}.get(str(value.get("kind")), UmiakError)
    error = kind(str(value.get("message", "the peer reported an error without a message")))
    error.exit_code = int(value.get("exit_code", 1))
    return error
