"""A containerd directory with the large images unpacked, made once; nodes get hard links to its files.

So three nodes cost the disk and the page cache of one, and a cluster starts with 5 GB of images in a second. The files of an
unpacked layer are never written to; containerd's few databases are, and every node gets copies of those.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.kube.command import run
from tests.kube.places import key
from tests.kube.registry import Registry
from umiak.errors import UmiakError


def make(store: Path, layout: Path, binaries: Path, wanted: Mapping[str, str]) -> Path:
    """The seed that holds the images `wanted` (digests by name), made now unless it is there."""
    seed = store / f"seed-{key([json.dumps(wanted, sort_keys=True)])}"
    if seed.is_dir():
        return seed
    part = seed.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    root = part / "containerd"
    root.mkdir(parents=True)
    began = time.monotonic()
    print("unpacking the large images, once", flush=True)
    with _registry(part, layout, wanted), _containerd(part, root, binaries) as socket:
        ctr = [str(binaries / "ctr"), "--address", str(socket), "--namespace", "k8s.io"]
        for name in wanted:
            run(*ctr, "images", "pull", "--hosts-dir", part / "hosts", name, timeout=1200)
        # What is unpacked need not stay packed as well.
        for digest in {digest for name in wanted.values() for digest in _layers(layout, name)}:
            run(*ctr, "content", "rm", digest, check=False)
    root.rename(seed)
    for old in (part, *(other for other in store.glob("seed-*") if other != seed)):
        shutil.rmtree(old, ignore_errors=True)
    print(f"unpacked in {time.monotonic() - began:.0f} s", flush=True)
    return seed


def plant(seed: Path, root: Path) -> None:
    """Give a node what the seed holds."""
    root.parent.mkdir(parents=True, exist_ok=True)
    run("cp", "--archive", "--link", seed, root)
    for directory, below, names in os.walk(root):
        below[:] = [name for name in below if name not in ("snapshots", "blobs")]
        for name in names:
            file = Path(directory, name)
            file.unlink()
            shutil.copy2(seed / file.relative_to(root), file)


@contextmanager
def _registry(part: Path, layout: Path, wanted: Mapping[str, str]) -> Iterator[None]:
    names = part / "names.json"
    names.write_text(json.dumps(dict(wanted)))
    with Registry(("127.0.0.1", 0), names, layout) as registry:
        ours = f"http://127.0.0.1:{registry.server_port}"
        hosts = part / "hosts" / "_default"
        hosts.mkdir(parents=True)
        (hosts / "hosts.toml").write_text(f'server = "{ours}"\n[host."{ours}"]\n  capabilities = ["pull", "resolve"]\n')
        thread = threading.Thread(target=registry.serve_forever)
        thread.start()
        try:
            yield
        finally:
            registry.shutdown()
            thread.join()


@contextmanager
def _containerd(part: Path, root: Path, binaries: Path) -> Iterator[Path]:
    socket = part / "containerd.sock"
    config = part / "containerd.toml"
    off = '"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"'
    config.write_text(
        f'version = 3\nroot = "{root}"\nstate = "{part / "state"}"\ndisabled_plugins = [{off}, "io.containerd.nri.v1.nri"]\n'
        f'[grpc]\n  address = "{socket}"\n'
    )
    with (part / "containerd.log").open("wb") as log:
        process = subprocess.Popen([binaries / "containerd", "-c", config], stdout=log, stderr=log)
    try:
        while not socket.exists():
            if process.poll() is not None:
                raise UmiakError(f"containerd ended: {(part / 'containerd.log').read_text()[-1500:]}")
            time.sleep(0.05)
        yield socket
    finally:
        process.terminate()
        process.wait(30)


def _layers(layout: Path, manifest: str) -> list[str]:
    described = json.loads((layout / "blobs" / "sha256" / manifest.removeprefix("sha256:")).read_text())
    return [layer["digest"] for layer in described["layers"]]
