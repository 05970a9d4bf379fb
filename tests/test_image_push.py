"""`umiak image push` from end to end, with a small base, a small lock and an index of its own: what arrives, what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numba
import pytest

from tests.oci_registry import Registry, publish, serving
from umiak.cli.main import main
from umiak.image import kernels, layers, packages, runtime

MINOR = sys.version_info[1]
BASE = {
    f"usr/local/bin/python3.{MINOR}": b"",
    "etc/passwd": b"root:x:0:0::/root:/bin/sh\n",
    "etc/group": b"root:x:0:\n",
}
TAGS = {"amd64": "manylinux_2_17_x86_64", "arm64": "manylinux_2_17_aarch64"}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


def wheel(directory: Path, name: str, tag: str, files: dict[str, str], version: str = "1.0") -> str:
    """A wheel and its SHA-256."""
    info, path = f"{name}-{version}.dist-info", directory / name / f"{name}-{version}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    files = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n"
    record = "".join(f"{each},,\n" for each in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as file:
        for each, text in {**files, f"{info}/RECORD": record}.items():
            file.writestr(zipfile.ZipInfo(each), text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package index: `native` for both architectures, `anywhere` for all; and a lock that names them."""
    place = tmp_path / "index"
    lock = ""
    for name, tags in (("native", [f"py3-none-{tag}" for tag in TAGS.values()]), ("anywhere", ["py3-none-any"])):
        code = {f"{name}/__init__.py": f"NAME = {name!r}\n"}
        hashes = [wheel(place, name, tag, {**code, f"{name}/data.txt": tag}) for tag in tags]
        lock += f"{name}==1.0 " + " ".join(f"--hash=sha256:{each}" for each in hashes) + "\n"
        links = "".join(f'<a href="{path.name}">{path.name}</a>' for path in sorted((place / name).glob("*.whl")))
        (place / name / "index.html").write_text(links)
    (tmp_path / "runtime.lock").write_text(lock)
    monkeypatch.setattr(packages, "LOCK", tmp_path / "runtime.lock")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.chdir(tmp_path)
    # Compiling real kernels takes real packages: tests/kube does that.
    monkeypatch.setattr(kernels, "is_possible", lambda target: False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(place)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}")
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def there() -> Iterator[Registry]:
    with serving() as registry:
        publish(registry, "base", BASE, ("amd64", "arm64"))
        yield registry


def push(there: Registry, *words: str, image: str = "team/runtime:1") -> int:
    return main(["image", "push", f"{there.host}/{image}", "--base", f"{there.host}/base", "--torch", "lock", *words])


def pushed(there: Registry, version: str = "1") -> tuple[dict[str, bytes], dict[str, object], list[str]]:
    """Files of all layers as a container sees them, the config, and the layers' digests."""
    described = json.loads(there.state.manifests["team/runtime", version][1])
    files: dict[str, bytes] = {}
    for entry in described["layers"]:
        with tarfile.open(fileobj=io.BytesIO(there.state.blobs["team/runtime", entry["digest"]])) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() else None
                files[member.name] = file.read() if file else member.linkname.encode()
    config = json.loads(there.state.blobs["team/runtime", described["config"]["digest"]])
    return files, config, [entry["digest"] for entry in described["layers"]]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_an_image_for_the_nodes_platform_is_pushed(
    index: str, there: Registry, architecture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(there, "--platform", f"linux/{architecture}") == 0
    assert f"no compiled kernels in the image: they need Linux on {architecture}" in capsys.readouterr().out
    files, config, _ = pushed(there)
    site = f"opt/umiak/lib/python3.{MINOR}/site-packages"
    assert files[f"{site}/native/data.txt"].decode() == f"py3-none-{TAGS[architecture]}"
    assert f"{site}/anywhere/__pycache__/__init__.cpython-3{MINOR}.pyc" in files
    assert files["etc/architecture"].decode() == config["architecture"] == architecture
    assert files["opt/umiak/bin/python3"].decode() == f"/usr/local/bin/python3.{MINOR}"
    assert files["etc/passwd"] == BASE["etc/passwd"] + b"umiak:x:1000:1000::/tmp:/bin/sh\n"
    assert files["opt/umiak/code/umiak/image/runtime.lock"] and files["opt/umiak/code/umiak/__init__.py"]
    own = config["config"]
    assert own["User"] == "1000:1000" and own["Entrypoint"] == ["umiak"] and "LANG=C" in own["Env"]
    assert "PATH=/opt/umiak/bin:/usr/local/bin:/bin" in own["Env"]


@pytest.mark.slow
def test_the_same_inputs_give_the_same_digest_on_another_machine(
    index: str, there: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(there)
    first = there.state.manifests["team/runtime", "1"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other" / "place"))
    push(there)
    assert there.state.manifests["team/runtime", "1"] == first


@pytest.mark.slow
def test_a_second_push_sends_only_what_has_changed(
    index: str, there: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    push(there)
    sent = there.state.arrived
    there.state.arrived = 0
    push(there)
    assert there.state.arrived == 0 and "exactly this image already" in capsys.readouterr().out
    _, _, before = pushed(there)
    monkeypatch.setattr(runtime, "_digest", lambda: "another version of umiak")
    monkeypatch.setattr(runtime, "UID", 1001)
    push(there)
    _, _, after = pushed(there)
    assert 0 < there.state.arrived < sent and before[:-1] == after[:-1] and before[-1] != after[-1]


@pytest.mark.slow
def test_a_changed_package_is_refused_by_its_hash(
    index: str, there: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path / "index", "anywhere", "py3-none-any", {"anywhere/__init__.py": "import evil\n"})
    assert push(there) != 0
    assert "ash mismatch" in capsys.readouterr().err and ("team/runtime", "1") not in there.state.manifests


@pytest.mark.parametrize(
    ("base", "told"),
    [
        ({**BASE, "lib/ld-musl-x86_64.so.1": b""}, "built on musl"),
        ({"usr/bin/python3.9": b""}, "no Python 3.11 or newer"),
        ({"bin/sh": b""}, "no Python 3.11 or newer"),
    ],
)
def test_a_base_that_cannot_work_is_refused_before_anything_is_built(
    index: str, there: Registry, base: dict[str, bytes], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(there, "odd", base)
    assert main(["image", "push", f"{there.host}/team/runtime:1", "--base", f"{there.host}/odd"]) == 2
    assert told in capsys.readouterr().err and not there.state.arrived


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--platform", "windows/amd64"], "linux/amd64 or linux/arm64"),
        (["--torch", "https://127.0.0.1:9", "--torch-sha256", "12"], "is not a SHA-256"),
        (["--base", "127.0.0.1:9/base"], "cannot reach the registry"),
    ],
)
def test_bad_words_are_one_line(
    index: str, there: Registry, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(packages.LOCK).write_text("torch==1.0\n")
    assert push(there, *words) in (2, 75)
    error = capsys.readouterr().err
    assert told in error and len(error.splitlines()) == 1


def test_without_a_name_it_says_where_one_would_be_found(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main(["image", "push"]) == 2
    assert "name the image" in capsys.readouterr().err


def test_a_registry_that_keeps_us_out_costs_no_build(
    index: str, there: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    there.state.auth = "basic"
    assert push(there) == 2
    assert "docker login" in capsys.readouterr().err


def test_what_a_killed_push_was_building_is_removed_a_day_later(tmp_path: Path) -> None:
    store, build = layers.Store(tmp_path), tmp_path / "build-1"
    (build / "packages").mkdir(parents=True)
    began = build.stat().st_mtime
    store.clean(now=began + layers.BUILD_SECONDS - 10)
    assert build.exists()
    store.clean(now=began + layers.BUILD_SECONDS + 10)
    assert not build.exists()


def test_the_cache_forgets_what_no_push_has_used(tmp_path: Path) -> None:
    store = layers.Store(tmp_path)
    digest = store.put(b"old")
    store.clean(now=store.blob(digest).stat().st_mtime + layers.KEEP_SECONDS - 10)
    assert store.blob(digest).exists()
    store.clean(now=store.blob(digest).stat().st_mtime + layers.KEEP_SECONDS + 10)
    assert not store.blob(digest).exists()


@pytest.mark.slow
@pytest.mark.parametrize(("known", "code"), [("right", 0), ("wrong", 2), ("none", 0)])
def test_torch_of_an_index_with_cpu_builds_is_taken_only_with_the_hash_that_was_given(
    index: str, there: Registry, tmp_path: Path, known: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files there have a local version, as 2.13.0+cpu."""
    right = wheel(tmp_path / "cpu", "torch", "py3-none-any", {"torch/__init__.py": "CPU = True\n"}, "1.0+cpu")
    name = "torch-1.0+cpu-py3-none-any.whl"
    (tmp_path / "cpu" / "torch" / "index.html").write_text(f'<a href="{name.replace("+", "%2B")}">{name}</a>')
    (tmp_path / "cpu").rename(tmp_path / "index" / "cpu")
    lock = Path(packages.LOCK)
    lock.write_text(f"{lock.read_text()}torch==1.0 --hash=sha256:{'0' * 64}\ntriton==1.0 --hash=sha256:{'0' * 64}\n")
    given = {"right": ["--torch-sha256", right], "wrong": ["--torch-sha256", "1" * 64], "none": []}[known]
    assert push(there, "--torch", f"{index}/cpu", *given) == code
    if code:
        assert "ash mismatch" in capsys.readouterr().err
    else:
        assert pushed(there)[0][f"opt/umiak/lib/python3.{MINOR}/site-packages/torch/__init__.py"] == b"CPU = True\n"


KERNEL = """import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def bits(values):
    return values.view(np.uint32)[0]


def main():
    bits(np.zeros(4, np.float32))
"""


@pytest.mark.slow
def test_kernels_compiled_in_two_directories_are_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view may raise an exception of numba's, which names the file that raises it."""
    monkeypatch.setattr(kernels, "WARM", ("umiak.sample:main",))
    target = packages.Target(kernels._MACHINES[platform.machine()], MINOR)
    found = []
    for place in (tmp_path / "one", tmp_path / "a" / "longer" / "one"):
        code, cache, site = place / "code", place / "numba", place / "packages"
        shutil.copytree(runtime.PACKAGE, code / "umiak", ignore=shutil.ignore_patterns("__pycache__"))
        (code / "umiak" / "sample.py").write_text(KERNEL)
        cache.mkdir()
        site.symlink_to(Path(numba.__file__).parents[1])
        entries = kernels.compiled(target, site, code, cache)
        found.append({entry.name: entry.source.read_bytes() for entry in entries if isinstance(entry.source, Path)})
    assert len(found[0]) == 2
    assert found[0] == found[1]
    assert f"/{target.site}/numba/".encode() in b"".join(found[0].values())
