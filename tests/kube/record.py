"""Who has which cluster on this machine: one small JSON file per place, written before anything is started there.

A cluster belongs to a process (a test run: when that process is gone, what it left is litter) or to nobody (started by hand:
it stays until it is taken down or its processes are gone).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.kube.places import Place, places
from umiak.files import write_json


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    start: int

    @staticmethod
    def of(pid: int) -> Process | None:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else Process(pid, int(fields[19]))

    @staticmethod
    def this() -> Process:
        found = Process.of(os.getpid())
        assert found is not None
        return found

    @property
    def alive(self) -> bool:
        return Process.of(self.pid) == self


@dataclass(frozen=True)
class Record:
    clone: str
    home: str
    owner: Process | None
    sysctls: dict[str, str]
    made: tuple[str, ...] = ()

    def write(self, place: Place) -> None:
        place.record.parent.mkdir(parents=True, exist_ok=True)
        write_json(place.record, asdict(self))


def read(place: Place) -> Record | None:
    try:
        value = json.loads(place.record.read_text())
    except FileNotFoundError:
        return None
    owner = Process(**value["owner"]) if value["owner"] else None
    return Record(value["clone"], value["home"], owner, value["sysctls"], tuple(value["made"]))


def taken() -> Iterator[tuple[Place, Record]]:
    for place in places():
        found = read(place)
        if found:
            yield place, found
