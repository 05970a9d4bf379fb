"""The files of a pattern, on this machine or in S3: which there are, and how to open one. Knows nothing of what is in them."""

from __future__ import annotations

import functools
import glob
import io
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umiak.data.streaming.cache import Cache
from umiak.errors import InputError, RetryError, UmiakError
from umiak.extras import needed

S3 = "s3://"
S3_ATTEMPTS = 10
"""A request that S3 refuses because it is busy is repeated so often, with growing pauses, before it is an error."""
BROKEN_ATTEMPTS = 5
SHOWN = 1000
"""So many objects are looked at to say what there is where nothing matches: one request."""
REFUSED = ("AccessDenied", "403", "InvalidAccessKeyId", "ExpiredToken", "SignatureDoesNotMatch", "RequestTimeTooSkewed")
_PARTITION = re.compile(r"([A-Za-z_]\w*)=([^/]+)")


@dataclass(frozen=True)
class File:
    path: str
    size: int
    tag: str
    """Changes when the content does: the time of the last change, or an object's ETag."""

    @property
    def partitions(self) -> dict[str, str]:
        """What its directories say, as in day=7/part-0.parquet."""
        return dict(_PARTITION.findall(self.path.rpartition("/")[0]))


def found(patterns: Sequence[str]) -> list[File]:
    """All files that the patterns match, in the order of their names. `**` stands for any number of directories."""
    files: dict[str, File] = {}
    for pattern in patterns:
        matching = list(_objects(pattern) if pattern.startswith(S3) else _local(pattern))
        if not matching:
            raise InputError(f"no file matches {pattern}; {_there(pattern)}")
        files |= {file.path: file for file in matching}
    return [files[path] for path in sorted(files)]


def opened(file: File, cache: Cache | None = None) -> Any:
    """The file for reading at any place, as pyarrow's NativeFile. An object that has changed is refused where it is read."""
    with needed("parquet", "stream() needs"):
        import pyarrow

    try:
        return pyarrow.PythonFile(_Object(file, cache)) if file.path.startswith(S3) else pyarrow.OSFile(file.path)
    except (OSError, pyarrow.ArrowException) as error:
        raise unreadable(file.path, error) from None


def check_unchanged(file: File) -> None:
    """Refuse a file of this machine that is not the one that was indexed."""
    if not file.path.startswith(S3):
        try:
            status = Path(file.path).stat()
        except OSError as error:
            raise unreadable(file.path, error) from None
        if (status.st_size, str(status.st_mtime_ns)) != (file.size, file.tag):
            raise changed(file.path)


def changed(path: str) -> InputError:
    return InputError(
        f"{path} has changed since this run began: put the old file back, or start a new run with the new one"
    )


def unreadable(path: str, error: BaseException) -> UmiakError:
    """What to tell of a file that cannot be read."""
    if isinstance(error, UmiakError):
        return error
    text = str(error).splitlines()[0] if str(error) else repr(error)
    if not path.startswith(S3):
        return InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or text}")
    code = (getattr(error, "response", None) or {}).get("Error", {}).get("Code", "")
    if code in ("PreconditionFailed", "412"):
        return changed(path)
    if code in ("NoSuchBucket", "NoSuchKey", "404"):
        return InputError(f"there is no {path} ({code}): correct its name, or look with `aws s3 ls`")
    if code in REFUSED or "credentials" in text.lower():
        return InputError(f"S3 refuses {path} ({text}): renew the credentials, or allow them to list and read it")
    return RetryError(f"cannot read {path} ({text}); try again when S3 answers")


class _Object(io.RawIOBase):
    """An object of S3 as a file. Every request names the ETag, so that parts of two versions are never mixed."""

    def __init__(self, file: File, cache: Cache | None) -> None:
        self._file, self._at, self._cache = file, 0, cache
        self._bucket, _, self._key = file.path.removeprefix(S3).partition("/")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._file.size if size < 0 else min(self._at + size, self._file.size)
        if self._at >= end:
            return b""
        data = self._kept(self._at, end)
        self._at = end
        return data

    def _kept(self, begin: int, end: int) -> bytes:
        """Rows are wanted in the same ranges in every pass, so a range is what the cache keeps."""
        if self._cache is None:
            return self._get(begin, end)
        key = f"{self._file.path} {self._file.tag} {begin}-{end}"
        data = self._cache.get(key)
        if data is None:
            data = self._get(begin, end)
            self._cache.put(key, data)
        return data

    def _get(self, begin: int, end: int) -> bytes:
        from botocore.exceptions import BotoCoreError, ClientError

        where = {"Bucket": self._bucket, "Key": self._key, "IfMatch": self._file.tag}
        for attempt in range(BROKEN_ATTEMPTS):
            try:
                data: bytes = s3().get_object(**where, Range=f"bytes={begin}-{end - 1}")["Body"].read()
                return data
            except (BotoCoreError, ClientError, OSError) as error:
                # botocore repeats requests, but not a body that breaks off.
                if isinstance(error, ClientError) or attempt == BROKEN_ATTEMPTS - 1:
                    raise unreadable(self._file.path, error) from None
        raise AssertionError("the last attempt returns or raises")


def s3() -> Any:
    """A client of this very process: one that was made before a fork may share its connections with the parent."""
    return _client(os.getpid(), os.environ.get("AWS_ENDPOINT_URL", ""))


@functools.lru_cache(maxsize=1)
def _client(process: int, endpoint: str) -> Any:
    with needed("s3", "s3:// needs"):
        import boto3
        from botocore.config import Config

    return boto3.client("s3", config=Config(retries={"mode": "standard", "total_max_attempts": S3_ATTEMPTS}))


def _local(pattern: str) -> Iterator[File]:
    # Path.glob refuses absolute patterns.
    for path in glob.glob(pattern, recursive=True):  # noqa: PTH207
        if Path(path).is_file():
            status = Path(path).stat()
            yield File(path, status.st_size, str(status.st_mtime_ns))


def _objects(pattern: str) -> Iterator[File]:
    bucket, _, key = pattern.removeprefix(S3).partition("/")
    fixed = re.split(r"[*?\[]", key, maxsplit=1)[0]
    matches = re.compile(translated(key)).fullmatch
    for entry in _listed(bucket, fixed):
        if matches(entry["Key"]):
            yield File(f"{S3}{bucket}/{entry['Key']}", entry["Size"], entry["ETag"].strip('"'))


def _listed(bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
    client = s3()
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            yield from page.get("Contents", ())
    except (BotoCoreError, ClientError) as error:
        raise unreadable(f"{S3}{bucket}/{prefix}", error) from None


def translated(pattern: str) -> str:
    """A pattern as a regular expression: * and ? stop at a slash, ** does not."""
    parts = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern):
        known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        parts.append(known.get(token) or (token.replace("[!", "[^") if len(token) > 2 else re.escape(token)))
    return "".join(parts)


def _there(pattern: str) -> str:
    """What is where the pattern looks, for an error."""
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
    if pattern.startswith(S3):
        bucket, _, prefix = fixed.removeprefix(S3).partition("/")
        names = sorted(entry["Key"] for entry in itertools.islice(_listed(bucket, prefix), SHOWN))
        where = f"{S3}{bucket}/{prefix}"
    else:
        directory = Path(fixed or ("/" if pattern.startswith("/") else "."))
        if not directory.is_dir():
            return f"there is no directory {directory}, seen from {Path.cwd()}"
        names, where = sorted(path.name for path in directory.iterdir()), str(directory.resolve())
    if not names:
        return f"{where} is empty"
    at_least = "at least " if len(names) == SHOWN else ""
    more = f" and {at_least}{len(names) - 3} more" if len(names) > 3 else ""
    return f"{where} holds {', '.join(names[:3])}{more}"
