"""What a job left on its volume: its passes, logs and curves, listed and brought here. Checkpoints stay where they are.

A file arrives under a temporary name and is renamed when its checksum is right, so a pull that is interrupted
resumes where it stopped, and a file that is there is whole.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from umiak.contract import volume
from umiak.contract.volume import File, Wanted
from umiak.errors import InputError, RetryError, UmiakError
from umiak.files import CHUNK, disk_error
from umiak.jobs.manifests import CLAIM_ANNOTATION, CONTAINER, OUTPUT_ANNOTATION, VOLUME
from umiak.jobs.volume_pod import VolumePod
from umiak.kube.api import Api
from umiak.kube.objects import path
from umiak.paths import is_relative

BEST = "best"
_PASS = re.compile(r"pass-(\d{5})(-\d{3})?")

OnProgress = Callable[[int, int], None]
"""Called with the bytes that are here, and all of them."""


@dataclass(frozen=True)
class Place:
    """Where a job's output is: a directory on a claim, and an image that can read it."""

    claim: str
    directory: str
    image: str


def of_job(api: Api, namespace: str, name: str) -> Place:
    """Asks the Job; one that is gone from the cluster has to be described by its job file."""
    job = api.find(path("Job", namespace, name))
    if job is None:
        raise InputError(
            f"there is no job {name!r} in namespace {namespace!r}; if it was deleted, its output is still on the volume: "
            "add --file job.yaml"
        )
    annotations = job["metadata"].get("annotations") or {}
    if CLAIM_ANNOTATION not in annotations:
        raise InputError(
            f"job {name!r} was not made by umiak job submit; add --file job.yaml that says where its output is"
        )
    containers = job["spec"]["template"]["spec"]["containers"]
    image = next(each["image"] for each in containers if each["name"] == CONTAINER)
    return Place(annotations[CLAIM_ANNOTATION], annotations[OUTPUT_ANNOTATION], image)


def listing(pod: VolumePod, directory: str) -> list[File]:
    files = volume.read_list(b"".join(pod.run(_command(directory), volume.request())))
    for file in files:
        if not is_relative(file.path):
            raise UmiakError(
                f"the volume lists {file.path!r}, which would be written outside the target; nothing was pulled"
            )
    return files


@dataclass(frozen=True)
class Group:
    """One thing a user would name: a pass, a worker's logs, the checkpoints, a file at the top."""

    name: str
    count: int
    bytes: int
    time: float


def groups(files: list[File]) -> list[Group]:
    found: dict[str, list[File]] = {}
    for file in files:
        first, slash, _ = file.path.partition("/")
        found.setdefault(first + slash, []).append(file)
    return [
        Group(name, len(members), sum(file.size for file in members), max(file.time for file in members))
        for name, members in found.items()
    ]


def chosen(files: list[File], pass_id: int | None) -> list[File]:
    """What a pull brings: everything but checkpoints, or of the passes one alone."""
    files = [file for file in files if not file.path.startswith("checkpoints/")]
    if pass_id is None:
        return files
    wanted = f"pass-{pass_id:05d}"
    passes = sorted({name for file in files if (name := _pass_of(file))})
    if wanted not in passes:
        raise InputError(f"there is no {wanted} on the volume; there are {', '.join(passes) or 'no passes yet'}")
    return [file for file in files if _pass_of(file) in ("", wanted)]


def _pass_of(file: File) -> str:
    """The snapshot it belongs to, or empty."""
    first = file.path.split("/")[0]
    return first if _PASS.fullmatch(first) else ""


def pull(pod: VolumePod, directory: str, files: list[File], target: Path, on_progress: OnProgress) -> int:
    """Bring the files that are not here yet; returns how many bytes transferred."""
    total = sum(file.size for file in files)
    missing = [file for file in files if not _same(target / file.path, file)]
    done = total - sum(file.size for file in missing)
    wanted = []
    for file in missing:
        offset = min(_part(target, file).stat().st_size, file.size) if _part(target, file).exists() else 0
        done += offset
        wanted.append(Wanted(file.path, offset, file.size))
    on_progress(done, total)
    travelled = _bring(pod, directory, missing, wanted, target, lambda count: on_progress(done + count, total))
    link_best(target, files)
    return travelled


def link_best(target: Path, files: list[File]) -> None:
    """Have TARGET/best lead to the snapshot that it leads to on the volume. What somebody else put there stays."""
    best = next((_pass_of(file) for file in files if file.best), "")
    link = target / BEST
    if best and (link.is_symlink() or not link.exists()):
        new = link.with_name(f".{BEST}.part")
        try:
            new.unlink(missing_ok=True)
            new.symlink_to(best)
            new.replace(link)
        except OSError as error:
            raise disk_error(error, link) from error


def _bring(
    pod: VolumePod,
    directory: str,
    missing: list[File],
    wanted: list[Wanted],
    target: Path,
    on_progress: Callable[[int], None],
) -> int:
    if not wanted:
        return 0
    source = _Source(pod.run(_command(directory), volume.request(wanted)))
    travelled = 0
    for file, want in zip(missing, wanted, strict=True):
        for count in _receive(source, target, file, want.offset):
            travelled += count
            on_progress(travelled)
    return travelled


def _command(directory: str) -> list[str]:
    return volume.command(f"{VOLUME}/{directory}")


def _part(target: Path, file: File) -> Path:
    final = target / file.path
    return final.with_name(f".{final.name}.part")


def _same(final: Path, file: File) -> bool:
    """A file is renamed into place only when it is whole; size and time tell whether the job has written it anew since."""
    if not final.exists():
        return False
    status = final.stat()
    return status.st_size == file.size and abs(status.st_mtime - file.time) < 1


def _receive(source: _Source, target: Path, file: File, offset: int) -> Iterator[int]:
    part = _part(target, file)
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with part.open("r+b" if offset else "wb") as out:
            _hash(out, offset, digest)
            left = file.size - offset
            while left:
                chunk = source.take(left)
                out.write(chunk)
                digest.update(chunk)
                left -= len(chunk)
                yield len(chunk)
            out.truncate()
        if source.exactly(volume.DIGEST_BYTES) != digest.digest():
            part.unlink()
            raise RetryError(f"{file.path} arrived damaged and was removed; pull again")
        os.utime(part, (file.time, file.time))
        part.replace(target / file.path)
    except OSError as error:
        raise disk_error(error, target / file.path) from error


def _hash(file: IO[bytes], size: int, digest: hashlib._Hash) -> None:
    while file.tell() < size:
        digest.update(file.read(min(CHUNK, size - file.tell())))


class _Source:
    """Pieces of any size, read as the sizes that are wanted."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, memoryview(b"")

    def take(self, most: int) -> memoryview:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                raise RetryError(
                    "the pod stopped sending in the middle of a file; pull again, it resumes where it stopped"
                )
            self._rest = memoryview(piece)
        taken, self._rest = self._rest[:most], self._rest[most:]
        return taken

    def exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += self.take(size - len(found))
        return found
