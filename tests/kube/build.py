"""Builds Kubernetes, etcd, CoreDNS and containerd from their Go modules, once per version and user.

The result is a directory of binaries in the cache, put there whole or not at all: an interrupted build leaves only Go's own
cache, with which the next one continues.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.kube import needs
from tests.kube.command import run
from tests.kube.places import HERE, cache, key
from umiak.errors import InputError, UmiakError

SOURCE = HERE / "hyperkube"
KUBERNETES = "1.36.3"
CONTAINERD = "v2.4.2"
KUBE_NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
CONTAINERD_NAMES = ("containerd", "containerd-shim-runc-v2", "ctr")
FLAGS = ("-trimpath", "-tags=grpcnotrace,no_btrfs,no_devmapper,no_zfs,no_tracing")


def binaries() -> Path:
    """The directory that holds (or will hold) the binaries of exactly this source."""
    sources = sorted(path for path in SOURCE.rglob("*") if path.is_file())
    return cache() / f"bin-{key([CONTAINERD, *FLAGS, _linked(), *sources])}"


def build() -> Path:
    """The binaries, built now unless they are there."""
    target = binaries()
    if target.is_dir():
        return target
    problem = needs.without_go()
    if problem:
        raise InputError(problem)
    with only_one(cache() / "build.lock", "another build is running; waiting for it"):
        if target.is_dir():
            return target
        for stale in cache().glob("bin-*.part"):
            shutil.rmtree(stale)
        part = target.with_suffix(".part")
        part.mkdir(parents=True)
        began = time.monotonic()
        print(f"building Kubernetes {KUBERNETES}, once: about 10 minutes on 2 cores", flush=True)
        _go("Kubernetes and etcd", "build", "-mod=readonly", "-ldflags", _linked(), "-o", str(part / "kube"), "./kube")
        for name in KUBE_NAMES:
            (part / name).symlink_to("kube")
        for name in ("coredns", "pause", "efs"):
            _go(name, "build", "-mod=readonly", "-ldflags", "-s -w", "-o", str(part / name), f"./{name}")
        wanted = [f"github.com/containerd/containerd/v2/cmd/{name}@{CONTAINERD}" for name in CONTAINERD_NAMES]
        _go("containerd", "install", "-ldflags", "-s -w", *wanted, env={"GOBIN": str(part)})
        part.rename(target)
        print(f"built in {time.monotonic() - began:.0f} s: {target}", flush=True)
    return target


def _linked() -> str:
    """kubectl and the API server refuse each other without a version, which only the linker sets."""
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {p}.{name}={value}" for p in packages for name, value in values.items())])


def _go(what: str, verb: str, *words: str, env: Mapping[str, str] | None = None) -> None:
    """Run go, counting the packages it names on the way."""
    command = ["go", verb, "-v", *FLAGS, *words]
    environment = {**os.environ, "CGO_ENABLED": "0", **(env or {})}
    began, said, seen = time.monotonic(), 0.0, []
    with subprocess.Popen(command, cwd=SOURCE, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            seen.append(line)
            now = time.monotonic()
            if now - said >= (1 if sys.stdout.isatty() else 30):
                said = now
                _progress(f"{what}: {len(seen)} packages, {now - began:.0f} s")
    if process.returncode:
        raise UmiakError(f"go {verb} of {what} failed: {''.join(seen[-20:]).strip()}")
    _progress(f"{what}: done, {time.monotonic() - began:.0f} s", last=True)


def _progress(line: str, last: bool = False) -> None:
    if sys.stdout.isatty():
        print(f"\r  {line:60}", end="\n" if last else "", flush=True)
    else:
        print(f"  {line}", flush=True)


@contextmanager
def only_one(lock: Path, waiting: str) -> Iterator[None]:
    """One process at a time; the kernel frees the lock of one that dies."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waiting, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def version(binaries: Path) -> str:
    return run(binaries / "kubelet", "--version").split()[-1]
