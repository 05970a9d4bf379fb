"""Gets the public data sets that the examples use, once, into a directory that every later run reads.

The directory is $UMIAK_DATA, or `data` in the working directory. A data set arrives whole or not at all: it is
assembled under a temporary name, checked, and renamed into place, so two fetches at once do no harm. `SHA256SUMS` in
it lets a later fetch (or sha256sum -c) see damage. Reading the files is movielens.py's and text.py's work.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from umiak.contract import environment
from umiak.data.location import root
from umiak.errors import InputError

SUMS = "SHA256SUMS"
MADE = 1_500_000_000
_WAIT = 15  # seconds without an answer after which a server counts as out of reach


@dataclass(frozen=True)
class _Set:
    """A data set: its directory, where it may come from (tried in turn), and what a user without a network can do."""

    folder: str
    origins: tuple[Callable[[], dict[str, bytes]], ...]
    by_hand: str


class _Unreachable(Exception):
    """One place a data set could come from did not answer; says why."""


def fetch(name: str, directory: Path | None = None) -> Path:
    """Make sure the data set is there and whole; returns its directory."""
    if name not in _SETS:
        raise InputError(f"there is no data set {name!r} to fetch; choose one of {', '.join(_SETS)}")
    wanted = _SETS[name]
    target = (directory or default_directory()) / wanted.folder
    if target.is_dir():
        _verify(target)
        return target
    refusals = []
    for origin in wanted.origins:
        try:
            files = origin()
        except _Unreachable as refusal:
            refusals.append(str(refusal))
        else:
            _install(target, files)
            return target
    by_hand = wanted.by_hand.format(folder=wanted.folder, target=target)
    raise InputError(f"cannot fetch {name}: {'; '.join(refusals)}. {by_hand}")


def default_directory() -> Path:
    directory = root()
    if "://" in directory:
        raise InputError(f"{environment.DATA}={directory}: this data set is read from a directory; copy it to a volume")
    return Path(directory)


def _install(target: Path, files: Mapping[str, bytes]) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise _unwritable(target, error) from None
    try:
        for name, content in files.items():
            (building / name).write_bytes(content)
            # The same on every machine: a source that is streamed knows a file by its time of change.
            os.utime(building / name, (MADE, MADE))
        sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
        (building / SUMS).write_text(sums)
        building.chmod(0o755)
        building.rename(target)
    except OSError as error:
        # Whoever fetches at the same time and is faster has put the same files there.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise _unwritable(target, error) from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _unwritable(target: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {target}: {error.strerror}; set UMIAK_DATA to a directory that can be written")


def _verify(target: Path) -> None:
    """A directory without SHA256SUMS was put there by the user, who answers for it."""
    sums = target / SUMS
    if not sums.is_file():
        return
    for line in sums.read_text().splitlines():
        wanted, name = line.split("  ", 1)
        path = target / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
            raise InputError(f"{path} is damaged or missing; remove {target} and fetch again")


def _from_grouplens(name: str, md5: str, files: tuple[str, ...]) -> dict[str, bytes]:
    address = f"https://files.grouplens.org/datasets/movielens/{name}.zip"
    try:
        with urllib.request.urlopen(address, timeout=_WAIT) as answer:
            content = answer.read()
    except OSError as error:
        raise _Unreachable(f"{address} is out of reach ({getattr(error, 'reason', error)})") from None
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise _Unreachable(f"{address} does not match the published checksum {md5}")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {file: archive.read(f"{name}/{file}") for file in files}


def _from_recbole() -> dict[str, bytes]:
    content = _package("recbole==1.2.1", "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407")
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        inside = "recbole/dataset_example/ml-100k"
        return {file: wheel.read(f"{inside}/{file}") for file in ("ml-100k.inter", "ml-100k.user", "ml-100k.item")}


def _made_up_clicks() -> dict[str, bytes]:
    from umiak.data import ctr

    return ctr.files()


def _from_vader() -> dict[str, bytes]:
    content = _package("vaderSentiment==2.5", "b960c954831f5ca58afee61780cc04ed48e551b91e783bfcbfb2c18bb8081a84")
    source = _member(content, "vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014.tar.gz")
    name = "amazonReviewSnippets_GroundTruth.txt"
    return {name: _member(source, f"hutto_ICWSM_2014/{name}")}


def _member(archive: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        file = tar.extractfile(name)
        assert file is not None  # the archive is known by its checksum
        return file.read()


def _package(requirement: str, sha256: str) -> bytes:
    """The file of a package from the index that pip is configured for; pip checks it against `sha256`."""
    name = requirement.partition("==")[0]
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text(f"{requirement} --hash=sha256:{sha256}\n")
        command = [*_pip_download(), "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
        command += [
            "--timeout",
            str(_WAIT),
            "--retries",
            "1",
            "--dest",
            f"{folder}/files",
            "--requirement",
            str(wanted),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise _Unreachable(f"the package index gave no {requirement} within 2 minutes") from None
        except OSError as error:
            raise _Unreachable(f"cannot run {command[0]} to download {requirement}: {error.strerror}") from None
        found = list(Path(folder, "files").glob(f"{name}-*"))
        if done.returncode or not found:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"]
            raise _Unreachable(f"the package index gave no {requirement} ({said[-1]})")
        return found[0].read_bytes()


def _pip_download() -> list[str]:
    if importlib.util.find_spec("pip"):
        command = [sys.executable, "-m", "pip", "download"]
        # A source package needs setuptools to name itself; where that is installed, pip need not download it first.
        return [*command, "--no-build-isolation"] if importlib.util.find_spec("setuptools") else command
    return ["uv", "tool", "run", "pip", "download"]


_ML_100K = partial(_from_grouplens, "ml-100k", "0e33842e24a9c977be4e0107933c0723", ("u.data", "u.user", "u.item"))
_ML_1M = partial(
    _from_grouplens, "ml-1m", "c4d9eecfca2ab87c1945afe126590906", ("ratings.dat", "users.dat", "movies.dat")
)
_UNPACK = "Or download {folder}.zip from grouplens.org on another machine and unpack it as {target}"
_SETS = {
    "movielens": _Set("ml-100k", (_ML_100K, _from_recbole), _UNPACK),
    "movielens-1m": _Set("ml-1m", (_ML_1M,), _UNPACK),
    "reviews": _Set("reviews", (_from_vader,), "Or copy {target} from a machine that has it"),
    "ctr": _Set("ctr", (_made_up_clicks,), ""),
}
