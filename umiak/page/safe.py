"""Files of run directories, which strangers may have written: opened only where they really lie below a named directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from umiak import system


class OutsideError(OSError):
    """A file that a link leads out of the named directories, or that is none."""


def opened(path: Path, roots: Sequence[Path]) -> BinaryIO:
    """Opened first and checked then: nobody can put a link there in between. `roots` are resolved already."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OutsideError(f"{path} is not a file")
        true = system.place(descriptor) or path.resolve()
        if not any(true.is_relative_to(root) for root in roots):
            raise OutsideError(f"{path} leads out of the directory that was named")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read(path: Path, roots: Sequence[Path], most: int = 4 << 20) -> bytes | None:
    """A small file, as far as it goes; None if there is none that may be read."""
    try:
        with opened(path, roots) as file:
            return file.read(most)
    except OSError:
        return None
