"""Paths and names that came from elsewhere: a manifest, a listing, a message. Nothing here touches what they lead to.

What a stranger may have written is used as a path only after one of these has let it through.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from umiak.errors import InputError

# What a job's requirements became: among the files that travel with the job, and then in its output.
LOCK = "requirements.lock"
NAME_BYTES = 255
"""What file systems allow for a name."""


def is_relative(text: object) -> bool:
    """Whether this is the plain path of a file below some directory, the same on every system."""
    return isinstance(text, str) and "\\" not in text and all(_is_part(part) for part in text.split("/"))


def is_name(text: object) -> bool:
    """Whether this can be the name of a file, and nothing but a name."""
    return isinstance(text, str) and "/" not in text and "\\" not in text and _is_part(text)


def _is_part(part: str) -> bool:
    return part not in ("", ".", "..") and "\0" not in part and len(part.encode(errors="replace")) <= NAME_BYTES


def link_below(root: Path, relative: str) -> Path | None:
    """The first symbolic link on the way from a directory to something below it."""
    path = root
    for part in Path(relative).parts:
        path = path / part
        if path.is_symlink():
            return path
    return None


def within(path: Path, roots: Sequence[Path]) -> bool:
    """Whether a path, links followed as far as it exists, is inside one of these directories."""
    resolved = path.resolve()
    return any(resolved.is_relative_to(root.resolve()) for root in roots)


def inside(directory: Path, name: object) -> Path:
    """A file that something in a directory names: it must be there itself, or a link must lead to another file there."""
    if not is_name(name):
        raise InputError(
            f"{directory} names the file {name!r}, which is not a plain file name: it is damaged, or not to be trusted"
        )
    path = directory / str(name)
    if not within(path, [directory]):
        raise InputError(f"{path} leads out of its directory, to {path.resolve()}: put the file itself there")
    return path
