"""The image takes what was named and nothing else: docker/install.py, run as far as a machine without Docker can."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
INSTALL = ROOT / "docker" / "install.py"
# Where the build puts a copy beside install.py.
LOCKS = ROOT / "umiak" / "image"
WHEEL = "torch-2.13.0+cpu-py3-none-any.whl"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(LOCKS))
    spec = importlib.util.spec_from_file_location("docker_install", INSTALL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A package index that has a torch, and its SHA-256."""
    place = tmp_path / "index" / "torch"
    place.mkdir(parents=True)
    info = "torch-2.13.0+cpu.dist-info"
    with zipfile.ZipFile(place / WHEEL, "w") as wheel:
        wheel.writestr("torch/__init__.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    (place / "index.html").write_text(f'<a href="{WHEEL}">{WHEEL}</a>')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "index")))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", hashlib.sha256((place / WHEEL).read_bytes()).hexdigest()
    server.shutdown()
    server.server_close()
    thread.join()


def test_torch_from_an_index_is_taken_only_with_the_hash_that_was_given(
    install: ModuleType, index: tuple[str, str], tmp_path: Path
) -> None:
    address, right = index
    for number, (sha256, taken) in enumerate(((right, True), ("0" * 64, False), ("", True))):
        target, lock = tmp_path / f"target-{number}", tmp_path / "torch.lock"
        lock.write_text(install.torch_requirement("2.13.0", sha256))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--target", str(target)]
        command += install.from_index(address, lock)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is taken, done.stderr
        assert (target / "torch").is_dir() is taken and ("DO NOT MATCH THE HASHES" in done.stderr) is not taken


@pytest.mark.parametrize(
    ("words", "told"),
    [(("https://index", "abc"), "is not a SHA-256"), (("lock", "0" * 64), "which has its own hashes")],
)
def test_a_hash_that_cannot_be_meant_ends_the_build(tmp_path: Path, words: tuple[str, str], told: str) -> None:
    shutil.copy(INSTALL, tmp_path)
    shutil.copy(LOCKS / "locks.py", tmp_path)
    shutil.copy(LOCKS / "runtime.lock", tmp_path)
    (tmp_path / "bootstrap.lock").write_text("")
    command = [sys.executable, str(tmp_path / "install.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and told in done.stderr
