"""Kernels compiled before the image is made, so that a pod need not: numba's cache, for the CPUs that nodes have.

numba compiles for the machine it runs on, so this works where this machine is of the image's kind: Linux, the same
architecture, the same Python. Elsewhere pods compile when they start. Run as a program, this file is the process that
compiles, with the image's own packages.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from umiak.errors import UmiakError
from umiak.image.layers import MOMENT, Entry
from umiak.image.packages import Target

CODE, CACHE = "opt/umiak/code", "opt/umiak/warm/numba"
# What every node of EC2 in use has: Haswell and Zen or newer, Graviton 2 or newer. Fixed, because numba takes compiled code
# only if it was made for the same kind of CPU.
CPUS = {"amd64": "x86-64-v3", "arm64": "neoverse-n1"}
# What calls every kernel once: module and function.
WARM = ("umiak.pserver.warm:main", "umiak.paddle_v1.warm:main", "umiak.worker.forked:warm_up")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def environment(architecture: str) -> dict[str, str]:
    """What numba must be told, when it compiles and when it looks for what was compiled."""
    return {"NUMBA_CPU_NAME": CPUS[architecture], "NUMBA_CPU_FEATURES": ""}


def is_possible(target: Target) -> bool:
    here = (sys.platform, _MACHINES.get(platform.machine()), sys.version_info[1])
    return here == ("linux", target.architecture, target.minor)


def compiled(target: Target, packages: Path, code: Path, work: Path) -> Iterator[Entry]:
    """The cache as entries of a layer. `code` is a copy of the sources, whose times become those of the image."""
    for path in code.rglob("*.py"):
        os.utime(path, (MOMENT, MOMENT))
    own = {"PYTHONPATH": os.pathsep.join((str(packages), str(code))), "NUMBA_CACHE_DIR": str(work)}
    places = {str(packages): f"/{target.site}", str(code): f"/{CODE}"}
    # -S: nothing but those packages. A fixed hash seed, no annotations and the image's paths: the same code gives the same bytes.
    done = subprocess.run(
        [sys.executable, "-S", "-m", "umiak.image.kernels", json.dumps(places), *WARM],
        env={**os.environ, **own, **environment(target.architecture), "PYTHONHASHSEED": "0"},
        cwd=work,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UmiakError(f"the kernels could not be compiled: {done.stderr.strip()[-1500:]}")
    for parent in sorted({path.parent for path in code.rglob("*.py")}):
        place = f"/{CODE}/{parent.relative_to(code)}"
        for file in sorted((work / _name(str(parent))).glob("*")):
            yield Entry(f"{CACHE}/{_name(place)}/{file.name}", file)


def _name(directory: str) -> str:
    """What numba calls the cache of the sources in a directory."""
    return f"{Path(directory).name}_{hashlib.sha1(directory.encode()).hexdigest()}"


def _compile(places: dict[str, str], warm: Sequence[str]) -> None:
    """Call the functions that call every kernel. `places` says where directories of this machine are in the image."""
    from numba.core.annotations.type_annotations import TypeAnnotation
    from numba.core.callconv import CPUCallConv

    # For people who inspect types; it holds paths and addresses of this process.
    TypeAnnotation.__str__ = lambda self: ""
    build = CPUCallConv.build_excinfo_struct

    def in_the_image(self: Any, *args: Any) -> Any:
        """An exception that compiled code may raise carries the file that raises it."""
        kind, arguments, location = build(self, *args)
        return kind, arguments, location and (location[0], moved(location[1], places), location[2])

    CPUCallConv.build_excinfo_struct = in_the_image
    for each in warm:
        module, _, function = each.partition(":")
        getattr(importlib.import_module(module), function)()


def moved(path: str, places: Mapping[str, str]) -> str:
    """A path below one of these directories, as it is in the image."""
    for here, there in places.items():
        if path.startswith(f"{here}/"):
            return there + path.removeprefix(here)
    return path


if __name__ == "__main__":
    _compile(json.loads(sys.argv[1]), sys.argv[2:])
