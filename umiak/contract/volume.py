"""What a client and a volume pod agree on (umiak/jobs/output.py, umiak/pod/files.py): a command, one line in, bytes out.

The pod's image may be older or newer than the client, so none of this changes; what is added, the other may leave out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

ALIVE = "/tmp/alive"
"""The pod ends a minute after this file was touched last; commands touch it while they work."""
DIGEST_BYTES = 32
"""After the bytes of each file that is sent comes the SHA-256 of all of it."""


@dataclass(frozen=True)
class File:
    """A file on the volume, seen from the directory that was listed. `time` is when it was written."""

    path: str
    size: int
    time: float
    best: bool = False
    """Whether it is of the snapshot that OUT/best links to. Who is older does not know of it, and needs not."""


@dataclass(frozen=True)
class Wanted:
    """A file that is to be sent, up to `size` and without the first `offset` bytes, which the client has."""

    path: str
    offset: int
    size: int


def command(directory: str) -> list[str]:
    """What runs in the pod."""
    return ["python", "-m", "umiak.pod.files", directory]


def request(wanted: Iterable[Wanted] | None = None) -> str:
    """The line that goes in: for a list of all files, or for the files that are wanted."""
    if wanted is None:
        return json.dumps({"list": True})
    return json.dumps({"send": [asdict(each) for each in wanted]})


def read_request(line: str) -> list[Wanted] | None:
    """None asks for a list."""
    given = json.loads(line)
    if given.get("list"):
        return None
    return [Wanted(each["path"], each["offset"], each["size"]) for each in given["send"]]


def write_list(files: Iterable[File]) -> str:
    return json.dumps(
        [{name: value for name, value in asdict(file).items() if value or name != "best"} for file in files]
    )


def read_list(text: bytes) -> list[File]:
    return [File(each["path"], each["size"], each["time"], bool(each.get("best"))) for each in json.loads(text)]
