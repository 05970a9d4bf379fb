"""A volume for a test that fails when the test says so: `with volume.fault(...)`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

START_SECONDS = 20.0


class FaultyVolume:
    def __init__(self, directory: Path) -> None:
        self.source, self.path = directory / "disk", directory / "volume"
        self._faults, self._met = directory / "faults.json", directory / "faults.met"
        for made in (self.source, self.path):
            made.mkdir(parents=True)
        self._met.touch()
        self._set([])
        with (directory / "volume.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.volume", self.source, self.path, self._faults, self._met],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not os.path.ismount(self.path):
            assert self._process.poll() is None, (directory / "volume.log").read_text()
            assert time.monotonic() < deadline, "the file system does not appear"
            time.sleep(0.02)

    def _set(self, faults: Sequence[dict[str, Any]]) -> None:
        part = self._faults.with_suffix(".part")
        part.write_text(json.dumps(list(faults)))
        part.replace(self._faults)

    @contextlib.contextmanager
    def error(self, name: str, operations: Sequence[str] = (), paths: str = "*") -> Iterator[None]:
        """While the block lasts, these operations (all, if none is named) fail with errno `name` on paths that match."""
        self._set([{"kind": "error", "errno": name, "operations": list(operations), "paths": paths}])
        yield from self._until_met()

    @contextlib.contextmanager
    def hang(self, paths: str = "*") -> Iterator[None]:
        """While the block lasts, nothing that is asked of the volume is answered."""
        self._set([{"kind": "hang", "operations": [], "paths": paths}])
        yield from self._until_met()

    @contextlib.contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        """While the block lasts, every answer takes that much longer."""
        self._set([{"kind": "slow", "seconds": seconds, "operations": [], "paths": "*"}])
        yield from self._until_met()

    def _until_met(self) -> Iterator[None]:
        before = self.met()
        try:
            yield
        finally:
            self._set([])
        assert self.met() > before, "nothing met the fault: the test shows nothing"

    def met(self) -> int:
        """How many operations have met a fault so far."""
        return self._met.read_bytes().count(b"\n")

    def close(self) -> None:
        """Nothing stays, whatever state the volume is in."""
        self._set([])
        subprocess.run(["fusermount3", "-uz", self.path], check=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def faulty_volume(directory: Path) -> Iterator[FaultyVolume]:
    volume = FaultyVolume(directory)
    try:
        yield volume
    finally:
        volume.close()
