"""What the machine must have: root, Go, some Debian packages (installed here when missing) and an overlay file system."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.kube.command import run
from umiak.errors import InputError

GO = (1, 26)
PACKAGES = {
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "buildah": "buildah",
    "skopeo": "skopeo",
    "debootstrap": "debootstrap",
    "fusermount3": "fuse3",
    "faketime": "faketime",
    "docker-registry": "docker-registry",
}


def missing_packages() -> list[str]:
    return [package for program, package in PACKAGES.items() if not shutil.which(program)]


def problems() -> list[str]:
    """Everything that stands in the way and that installing packages would not mend, each with what to do."""
    found = []
    if sys.platform != "linux":
        return ["a Linux machine is needed; this is " + sys.platform]
    if os.geteuid() != 0:
        found.append("root is needed for network namespaces, mounts and cgroups; run it with sudo")
    if "overlay" not in Path("/proc/filesystems").read_text():
        found.append("the kernel has no overlay file system; load it with `modprobe overlay`")
    if not Path("/sys/fs/cgroup").is_mount():
        found.append("no cgroups are mounted at /sys/fs/cgroup")
    if missing_packages() and not shutil.which("apt-get"):
        found.append(f"these programs are missing and there is no apt-get: {', '.join(missing_packages())}")
    return found


def without_go() -> str | None:
    """What to do about Go, which only the build needs."""
    wanted = ".".join(map(str, GO))
    if not shutil.which("go"):
        return f"Go {wanted} or newer is needed to build Kubernetes; install it from https://go.dev/dl and put it into PATH"
    have = run("go", "env", "GOVERSION").strip().removeprefix("go")
    if tuple(int(part) for part in have.split(".")[:2] if part.isdigit()) < GO:
        return f"Go {wanted} or newer is needed to build Kubernetes; this is {have}"
    return None


def require() -> None:
    found = problems()
    if found:
        raise InputError("no cluster can be started here: " + "; ".join(found))
    missing = missing_packages()
    if not missing:
        return
    print(f"installing {', '.join(missing)}", flush=True)
    # Without a run level, packages that bring a service do not start it.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    run("apt-get", "update", "-qq", env=quiet, timeout=300)
    run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, env=quiet, timeout=600)
    still = missing_packages()
    if still:
        raise InputError(f"apt-get installed {', '.join(still)}, but the programs are not in PATH")
