"""The job's token for roles that are started by hand: from UMIAK_TOKEN, or from a file that only its user can read.

Command lines are there for all to see, so the token is never on one. The first server of a user writes the file; the user
copies it to the other hosts once, and scripts need nothing else.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from umiak.contract import environment
from umiak.errors import InputError
from umiak.files import atomic, disk_error
from umiak.wire.address import Address

VARIABLE = environment.TOKEN
PRIVATE = 0o600


def path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "umiak" / "token"


def found(file: Path | None = None) -> str:
    """The token of this user, or that in `file`; empty if there is none."""
    return os.environ.get(VARIABLE) or _read(file or path())


def needed(addresses: Sequence[Address]) -> Address | None:
    """The first address that processes of other machines can reach, or that is on one: a token is needed for it."""
    return next((address for address in addresses if not address.is_local), None)


def for_trainer(services: Sequence[Address], file: Path | None = None) -> str:
    token = found(file)
    if not token and (remote := needed(services)):
        raise InputError(
            f"{remote} is on another machine, and there is no token: copy {file or path()} from the host of a parameter server "
            f"to the same place here (scp -p), or set {VARIABLE} for all roles of the job"
        )
    return token


def for_server(addresses: Sequence[Address], file: Path | None = None) -> tuple[str, str]:
    """The token, and what the user should know about it: it is made if there is none and others can reach this server."""
    token, file = found(file), file or path()
    if token or not needed(addresses):
        return token, ""
    token = _make(file)
    return token, (
        f"wrote a token to {file}: copy it to the same place on every other host of the job (scp -p), "
        "readable by you alone; nobody can join without it"
    )


def _read(file: Path) -> str:
    try:
        with file.open() as opened:
            status = os.fstat(opened.fileno())
            text = opened.read().strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the token in {file}: {error}; correct or remove it") from None
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"others may read {file}, which holds a token: chmod 600 {file}, or remove it for a new one")
    if status.st_uid != os.getuid():
        raise InputError(f"{file} belongs to another user: remove it, or set {VARIABLE}")
    if not text:
        raise InputError(f"{file} is empty: remove it for a new token, or copy it again")
    return text


def _make(file: Path) -> str:
    """A new file, unless another server was quicker: all of them then have its token."""
    draft = file.with_name(f".token.{secrets.token_hex(6)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic(draft, PRIVATE) as opened:
            opened.write(f"{secrets.token_hex(32)}\n".encode())
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    except OSError as error:
        raise disk_error(error, file) from error
    finally:
        draft.unlink(missing_ok=True)
    return _read(file)
