"""What a pod fetches before its worker can start: the config directory, and its shard of the data."""

from __future__ import annotations

import contextlib
import tarfile
from pathlib import Path, PurePosixPath

from umiak.data import shards
from umiak.errors import InputError, RetryError
from umiak.files import atomic
from umiak.paths import LOCK


def unpack(archive: Path, directory: Path) -> None:
    """Unpack the config directory that came with the job."""
    try:
        with tarfile.open(archive) as tar:
            # tarfile's own filter for this came only with Python 3.11.4.
            for member in tar.getmembers():
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
                    raise InputError(
                        f"{archive} holds {member.name!r}, which is not a plain file inside the config directory"
                    )
            tar.extractall(directory)
    except FileNotFoundError:
        raise InputError(f"{archive} is missing: the job's ConfigMap is not mounted there") from None
    except (tarfile.TarError, EOFError) as error:
        raise InputError(f"{archive} cannot be unpacked: {error}") from None
    except OSError as error:
        raise RetryError(f"cannot unpack {archive} into {directory}: {error.strerror or error}") from None


def keep_lock(archive: Path, out: Path) -> None:
    """What the job's requirements became, if it has any, beside its output: by it the same image can be made again."""
    with contextlib.suppress(FileNotFoundError, KeyError, tarfile.TarError), tarfile.open(archive) as tar:
        file = tar.extractfile(LOCK)
        if file is not None:
            with atomic(out / LOCK) as copy:
                copy.write(file.read())


def stage(root: Path, index: int, workers: int, target: Path) -> int:
    """Copy this worker's shard beside its config and check it against the manifest; the number of files."""
    try:
        return shards.stage(root, index, workers, target)
    except OSError as error:
        raise RetryError(f"cannot copy shard {index} of {root} to {target}: {error.strerror or error}") from None


def staged_bytes(target: Path) -> int:
    """How much is there by now."""
    total = 0
    for path in target.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
