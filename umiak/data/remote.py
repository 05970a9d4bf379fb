"""A source that is not a local path: a file behind http(s)://, or an object or a prefix in s3://. Brought here to be cut.

What was brought stays beside the shards until they are whole, so that an interrupted run continues where it stopped. A file
that is shorter than its server said is never taken for whole.
"""

from __future__ import annotations

import http.client
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from umiak.data import split as cutting
from umiak.data.shards import Manifest, read
from umiak.errors import InputError, RetryError
from umiak.extras import needed
from umiak.files import disk_error
from umiak.paths import is_relative

FOLDER = ".source"
CHUNK = 1 << 20
ANSWER_SECONDS = 60.0
SCHEMES = ("http", "https", "s3")

OnProgress = Callable[[int, int], None]
"""Called with the bytes that are here, and all of them."""


@dataclass(frozen=True)
class Item:
    """One file to bring. `tag` changes when its content does."""

    name: str
    size: int
    tag: str


class Origin(Protocol):
    address: str

    def items(self) -> list[Item]: ...

    def read(self, item: Item, offset: int) -> Iterator[bytes]:
        """The file's bytes from `offset` on; RetryError if it is not the same any more."""


def is_remote(source: str) -> bool:
    return "://" in source


def origin(source: str) -> Origin:
    scheme = source.partition("://")[0]
    if scheme not in SCHEMES:
        raise InputError(
            f"{source}: {scheme}:// is not known; write {', '.join(f'{each}://' for each in SCHEMES)} or a path"
        )
    return _S3(source) if scheme == "s3" else _Http(source)


def split(
    source: str,
    root: Path,
    shards: int,
    layout: str = "2017",
    whole: Sequence[str] = (),
    header: bool = False,
    overwrite: bool = False,
    on_progress: OnProgress = lambda done, total: None,
    parquet: bool = False,
) -> Manifest:
    """Bring a source and cut it as umiak.data.split does; what is already cut of the same content is left as it is."""
    place = origin(source)
    items = _plain_items(place)
    address = {"address": source, "content": {item.name: [item.size, item.tag] for item in items}}
    there = read(root)
    same = (shards, layout, address, parquet)
    if there is not None and same == (
        *(there.shards, there.layout, there.source.get("address")),
        there.source.get("parquet", False),
    ):
        return there
    if there is not None and not overwrite:
        raise InputError(
            f"{root} holds shards of other data; choose another directory or replace them with --overwrite"
        )
    local = bring(place, items, root, on_progress)
    plan = cutting.plan(local, shards, layout, whole, header, address, parquet)
    manifest = cutting.split(plan, root, overwrite, on_progress)
    shutil.rmtree(root / FOLDER)
    return manifest


def _plain_items(source: Origin) -> list[Item]:
    """What a source lists, if every name is one that can only be written below the directory it is brought to."""
    items = source.items()
    for item in items:
        if not is_relative(item.name):
            raise InputError(
                f"{source.address} lists {item.name!r}, which is not a plain file path: nothing was fetched"
            )
    return items


def bring(source: Origin, items: list[Item], root: Path, on_progress: OnProgress = lambda done, total: None) -> Path:
    """All files, whole, under ROOT/.source; returns the file if it is one, else the directory."""
    folder = root / FOLDER
    total = sum(item.size for item in items)
    done = 0
    try:
        for item in items:
            path = folder / item.name
            if not path.exists():
                _bring(source, item, path, lambda count, before=done: on_progress(before + count, total))  # type: ignore[misc]
            done += item.size
            on_progress(done, total)
    except OSError as error:
        raise disk_error(error, folder) from error
    return folder / items[0].name if len(items) == 1 else folder


def _bring(source: Origin, item: Item, path: Path, on_progress: Callable[[int], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # The tag is in the name: a file whose content has changed is fetched anew.
    part = path.with_name(f".{path.name}.{_plain(item.tag)}.part")
    for old in path.parent.glob(f".{path.name}.*.part"):
        if old != part:
            old.unlink()
    with part.open("ab") as file:
        if file.tell() < item.size:
            for chunk in source.read(item, file.tell()):
                file.write(chunk)
                on_progress(file.tell())
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    if size > item.size:
        part.unlink()
        raise RetryError(f"{source.address}: {item.name} sent more than the {item.size:,} bytes it has; try again")
    if size < item.size:
        raise RetryError(
            f"{source.address}: {item.name} ended after {size:,} of {item.size:,} bytes; run it again to continue"
        )
    part.replace(path)


def _plain(tag: str) -> str:
    return "".join(letter for letter in tag if letter.isalnum())[:40] or "0"


class _Http:
    def __init__(self, address: str) -> None:
        self.address = address

    def items(self) -> list[Item]:
        name = PurePosixPath(unquote(urlsplit(self.address).path)).name
        with self._open("HEAD", {}) as answer:
            length = answer.headers.get("Content-Length")
            tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        if length is None:
            raise InputError(f"{self.address} does not give its length, so a truncated download could not be detected")
        return [Item(name, int(length), tag)]

    def read(self, item: Item, offset: int) -> Iterator[bytes]:
        headers = {"Range": f"bytes={offset}-", "If-Range": item.tag} if offset else {}
        try:
            with self._open("GET", {name: value for name, value in headers.items() if value}) as answer:
                if (answer.headers.get("ETag") or answer.headers.get("Last-Modified") or "") != item.tag:
                    raise RetryError(f"{self.address} has changed while it was read; run again")
                if offset and answer.status != 206:
                    # This server cannot begin in the middle.
                    _skip(answer, offset)
                while chunk := answer.read(CHUNK):
                    yield chunk
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise RetryError(f"{self.address} broke off: {error}; run it again to continue") from None

    def _open(self, method: str, headers: dict[str, str]) -> Any:
        request = urllib.request.Request(self.address, method=method, headers={"User-Agent": "umiak", **headers})
        try:
            return urllib.request.urlopen(request, timeout=ANSWER_SECONDS)
        except urllib.error.HTTPError as error:
            kind = RetryError if error.code in (429, 500, 502, 503, 504) else InputError
            raise kind(f"{self.address} answers {error.code} {error.reason}: check the address") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise RetryError(f"cannot reach {self.address}: {reason}; check the address and the network") from None


def _skip(answer: Any, count: int) -> None:
    while count:
        chunk = answer.read(min(CHUNK, count))
        if not chunk:
            return
        count -= len(chunk)


class _S3:
    """An object, or all objects below a prefix, with the credentials boto3 finds: environment, profile, or role."""

    def __init__(self, address: str) -> None:
        with needed("s3", "s3:// needs"):
            import boto3
        self.address = address
        parts = urlsplit(address)
        self._bucket, self._key = parts.netloc, parts.path.lstrip("/")
        self._client = boto3.client("s3")

    def items(self) -> list[Item]:
        found = []
        pages = self._call(lambda: list(self._pages()))
        for each in (each for page in pages for each in page.get("Contents", [])):
            below = each["Key"][len(self._key) :]
            name = below.removeprefix("/") if self._key and not self._key.endswith("/") else below
            inside = not self._key or self._key.endswith("/") or below.startswith("/")
            if each["Key"] == self._key:
                return [Item(PurePosixPath(each["Key"]).name, each["Size"], each["ETag"])]
            if inside and name and not name.endswith("/"):
                found.append(Item(name, each["Size"], each["ETag"]))
        if not found:
            raise InputError(
                f"{self.address}: there is no such object, and none below it; aws s3 ls shows what there is"
            )
        return found

    def read(self, item: Item, offset: int) -> Iterator[bytes]:
        from botocore.exceptions import BotoCoreError, ClientError

        whole = PurePosixPath(self._key).name == item.name
        key = self._key if whole else f"{self._key.rstrip('/')}/{item.name}".lstrip("/")
        options = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            body = self._call(
                lambda: self._client.get_object(Bucket=self._bucket, Key=key, IfMatch=item.tag, **options)["Body"]
            )
            yield from body.iter_chunks(CHUNK)
        except (BotoCoreError, ClientError) as error:
            raise RetryError(f"{self.address} broke off: {error}; run it again to continue") from None

    def _pages(self) -> Any:
        return self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._key)

    def _call(self, call: Callable[[], Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            return call()
        except NoCredentialsError:
            raise InputError(
                f"{self.address}: no AWS credentials; set a profile, or give the pod's node a role"
            ) from None
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            message = error.response.get("Error", {}).get("Message", "")
            kind = RetryError if code in ("SlowDown", "InternalError", "PreconditionFailed", "503") else InputError
            raise kind(f"{self.address}: {code}: {message}") from None
        except BotoCoreError as error:
            raise RetryError(f"{self.address}: {error}") from None
