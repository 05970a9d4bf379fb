"""The data pod of the 2017 tutorial: puts the config directory and the shards of a small text set on the volume."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from umiak.data import shards, split
from umiak.errors import InputError, UmiakError
from umiak.files import disk_error

CONFIG = Path("/quick_start")
DATA = Path("/quick_start_data")


def main(environ: Mapping[str, str], config: Path = CONFIG, data: Path = DATA) -> int:
    try:
        out, count = _read(environ)
        shutil.copytree(config, out / config.name, dirs_exist_ok=True)
        plan = split.plan(data, count)
        if (there := shards.read(out)) is not None and there.shards != count:
            print(
                f"umiak: warning: {out} was split into {there.shards} shards; it is split again into {count}",
                file=sys.stderr,
            )
        manifest = split.split(plan, out, overwrite=True)
        shards.verify(out)
        print(f"{manifest.samples:,} samples in {count} shards under {out}; the config is in {out / config.name}")
        return 0
    except OSError as error:
        problem: UmiakError = disk_error(error, Path(environ.get("OUT_DIR", "")))
    except UmiakError as error:
        problem = error
    print(f"umiak: {problem}", file=sys.stderr)
    return problem.exit_code


def _read(environ: Mapping[str, str]) -> tuple[Path, int]:
    out, count = environ.get("OUT_DIR"), environ.get("SPLIT_COUNT", "")
    if not out:
        raise InputError("OUT_DIR is not set: write the directory on the volume that gets the shards")
    if not count.isdigit() or int(count) < 1:
        raise InputError(
            f"SPLIT_COUNT={count!r} is not a whole number of at least 1: write the number of training pods"
        )
    return Path(out), int(count)
