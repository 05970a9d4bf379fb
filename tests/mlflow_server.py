"""A real MLflow server with SQLite, on a free port. All of mlflow does not fit beside our lock (it wants an older pyarrow), so
it has an environment of its own, from tests/mlflow.lock, in ~/.cache/umiak/tests."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

LOCK = Path(__file__).with_name("mlflow.lock")
PLACE = Path.home() / ".cache/umiak/tests"


def environment() -> Path:
    """Its bin directory. Made once for each content of the lock; older ones are removed."""
    place = PLACE / f"mlflow-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "mlflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "ready").exists():
            for old in PLACE.glob("mlflow-*"):
                shutil.rmtree(old)
            _uv("venv", "--python", sys.executable, place)
            _uv("pip", "sync", "--require-hashes", "--python", place / "bin/python", LOCK)
            (place / "ready").touch()
    return place / "bin"


def _uv(*words: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *words], check=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(directory: Path, port: int) -> Iterator[str]:
    """Its address, once it answers."""
    directory.mkdir(exist_ok=True)
    words = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    words += ["--backend-store-uri", f"sqlite:///{directory / 'mlflow.db'}", "--artifacts-destination", str(directory)]
    path = f"{environment()}:/usr/bin:/bin"
    settings = {"PATH": path, "HOME": str(directory), "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with (directory / "server.log").open("w") as log:
        process = subprocess.Popen(
            [environment() / "mlflow", *words], env=settings, cwd=directory, stdout=log, stderr=log
        )
        try:
            _wait(f"http://127.0.0.1:{port}/health", process, directory)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def _wait(address: str, process: subprocess.Popen[bytes], directory: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(address, timeout=5):
            return
        assert process.poll() is None and time.monotonic() < deadline, (directory / "server.log").read_text()
        time.sleep(0.2)
