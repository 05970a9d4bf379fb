"""Which files umiak itself wrote on this machine: a list with their checksums, in a directory of the user's own.

A kubeconfig names programs that are run to log in, so one that merely lies in the working directory, as in a repository that was
cloned, is not used unless its user names it. One that `umiak cluster` wrote, and nobody changed, is used unasked.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from umiak.files import atomic, disk_error


def record(path: Path) -> None:
    """Record a file as it is now: written by us, for this user, at this place."""
    entry = _entry(path)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = {"path": str(path.resolve()), "sha256": _digest(path)}
    except OSError as error:
        raise disk_error(error, entry) from error
    with atomic(entry, mode=0o600) as file:
        file.write(json.dumps(content).encode())


def is_recorded(path: Path) -> bool:
    """Whether it is one of ours and has not changed since."""
    try:
        found = json.loads(_entry(path).read_text())
        return bool(found == {"path": str(path.resolve()), "sha256": _digest(path)})
    except (OSError, ValueError):
        return False


def _entry(path: Path) -> Path:
    home = os.environ.get("XDG_DATA_HOME")
    place = (Path(home) if home else Path.home() / ".local" / "share") / "umiak" / "written"
    return place / hashlib.sha256(os.fsencode(path.resolve())).hexdigest()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
