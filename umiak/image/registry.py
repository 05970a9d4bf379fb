"""One repository of a registry: manifests and blobs, by the OCI distribution protocol.

    POST   blobs/uploads/            → where to send it           (with ?mount=…&from=…: taken from a neighbour, nothing is sent)
    PATCH  that address, a chunk     → where to send the next one
    GET    that address              → how much has arrived, after a broken connection
    PUT    that address?digest=…     → the blob is there

docs/decisions/image.md says why this is not a library's work.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3 import exceptions

from umiak.errors import DamagedError, InputError, RetryError
from umiak.files import atomic
from umiak.image.http import Http
from umiak.image.reference import Reference

# ECR takes no part below 5 MB but the last.
CHUNK = 8 << 20
# How long an upload or download may stand still, in spite of new attempts.
PATIENCE_SECONDS = 60.0
INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")

Progress = Callable[[int], None]


class Repository:
    def __init__(self, image: Reference, http: Http) -> None:
        self.image, self.http = image, http
        self._root = f"/v2/{image.repository}"

    def manifest(self, version: str) -> tuple[dict[str, Any], str] | None:
        """A manifest or index and its digest; None if there is none."""
        accept = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
        answer = self.http.request("GET", f"{self._root}/manifests/{version}", headers=accept)
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise self.http.problem(answer, f"show {self.image}")
        digest = f"sha256:{hashlib.sha256(answer.data).hexdigest()}"
        if version.startswith("sha256:") and version != digest:
            raise DamagedError(f"{self.image.host} sent something other than {self.image}; try again, or ask its owner")
        return {"mediaType": answer.headers.get("Content-Type", ""), **json.loads(answer.data)}, digest

    def has_blob(self, digest: str) -> bool:
        answer = self.http.request("HEAD", f"{self._root}/blobs/{digest}")
        if answer.status not in (200, 404):
            raise self.http.problem(answer, f"say whether it has {digest}")
        return answer.status == 200

    def put_manifest(self, version: str, body: bytes, kind: str) -> None:
        answer = self.http.request("PUT", f"{self._root}/manifests/{version}", body, {"Content-Type": kind})
        if answer.status == 400 and _code(answer) == "ImageTagAlreadyExistsException":
            raise InputError(f"{self.image} exists, and its repository does not let a tag move; choose another tag")
        if answer.status not in (200, 201):
            raise self.http.problem(answer, f"take {self.image}")

    def download(self, digest: str, path: Path, progress: Progress) -> None:
        """A blob into a file. A connection that breaks is made again and continues."""
        patience, done, check = _Patience(), 0, hashlib.sha256()
        with atomic(path) as file:
            while True:
                wanted = {"Range": f"bytes={done}-"} if done else {}
                try:
                    answer = self.http.request("GET", f"{self._root}/blobs/{digest}", headers=wanted, stream=True)
                    if answer.status == 404:
                        raise InputError(f"{self.image.host} has a manifest of {self.image} but not its blob {digest}")
                    if answer.status != (206 if done else 200):
                        raise self.http.problem(answer, f"send {digest}")
                    for part in answer.stream(CHUNK):
                        file.write(part)
                        check.update(part)
                        done += len(part)
                        progress(len(part))
                        patience.renew()
                    break
                except (exceptions.HTTPError, RetryError) as error:
                    patience.wait(f"{self.image.host} does not send {digest}", error)
            if f"sha256:{check.hexdigest()}" != digest:
                raise DamagedError(f"{self.image.host} sent something other than {digest}; try again")

    def upload(self, digest: str, path: Path, progress: Progress, neighbour: str = "") -> None:
        """A file as a blob, in chunks: after a broken connection it continues where the registry says it stopped.

        The address of an upload that a killed process began is beside the file, and is tried first.
        """
        note = path.with_name(f"{path.name}.{hashlib.sha256(self.image.name.encode()).hexdigest()[:12]}.upload")
        place = note.read_text() if note.exists() else ""
        done = self._arrived(place) if place else None
        if done is None:
            place, done = self._begin(digest, neighbour), 0
        if not place:
            return
        progress(done)
        patience, size = _Patience(), path.stat().st_size
        with path.open("rb") as file:
            while done < size:
                note.write_text(place)
                try:
                    place, sent = self._send(place, file.read(CHUNK) if file.seek(done) == done else b"", done)
                    progress(sent)
                    done += sent
                    patience.renew()
                except RetryError as error:
                    patience.wait(f"{self.image.host} does not take {digest}", error)
                    arrived = self._arrived(place)
                    if arrived is None:
                        place, arrived = self._begin(digest), 0
                    progress(arrived - done)
                    done = arrived
        self._finish(place, digest)
        note.unlink(missing_ok=True)

    def _begin(self, digest: str, neighbour: str = "") -> str:
        """Where to send a blob; nothing if the registry took it from a neighbouring repository."""
        query = f"?{urlencode({'mount': digest, 'from': neighbour})}" if neighbour else ""
        answer = self.http.request("POST", f"{self._root}/blobs/uploads/{query}", b"", {"Content-Length": "0"})
        if answer.status == 201:
            return ""
        if answer.status == 404:
            raise InputError(f"{self.image.host} has no repository {self.image.repository}; make it, or check the name")
        if answer.status != 202:
            raise self.http.problem(answer, f"begin to take {digest}")
        return str(answer.headers["Location"])

    def _send(self, place: str, chunk: bytes, start: int) -> tuple[str, int]:
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"{start}-{start + len(chunk) - 1}",
            "Content-Length": str(len(chunk)),
        }
        answer = self.http.request("PATCH", place, chunk, headers)
        if answer.status == 416 or answer.status == 404:
            raise RetryError("it has lost its place")
        if answer.status not in (201, 202):
            raise self.http.problem(answer, "take a part of a layer")
        return str(answer.headers["Location"]), len(chunk)

    def _arrived(self, place: str) -> int | None:
        """How many bytes of an upload the registry has; None if it knows nothing of it."""
        try:
            answer = self.http.request("GET", place)
        except (RetryError, InputError):
            return None
        first, _, last = answer.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if answer.status != 204 or first != "0" or not last.isdigit():
            return None
        # A registry that has nothing says 0-0, as one with a single byte does.
        return int(last) + 1 if int(last) else None

    def _finish(self, place: str, digest: str) -> None:
        joint = "&" if "?" in place else "?"
        answer = self.http.request(
            "PUT", f"{place}{joint}{urlencode({'digest': digest})}", b"", {"Content-Length": "0"}
        )
        if answer.status not in (201, 204):
            raise self.http.problem(answer, f"take {digest}")


class _Patience:
    """New attempts for as long as there is progress, and a minute longer."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._until, self._pause = time.monotonic() + PATIENCE_SECONDS, 0.2

    def wait(self, what: str, error: Exception) -> None:
        if time.monotonic() > self._until:
            raise RetryError(
                f"{what} for {PATIENCE_SECONDS:.0f} s ({error}); run the same command again: what has arrived is not sent again"
            ) from None
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, 5.0)


def _code(answer: urllib3.BaseHTTPResponse) -> str:
    try:
        return str(json.loads(answer.data)["errors"][0]["code"])
    except (ValueError, LookupError, TypeError):
        return ""
