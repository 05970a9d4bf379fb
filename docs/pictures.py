"""Draws the pictures of gallery.md: `python docs/pictures.py [NAME …]`, in the source tree.

Each picture comes from a real run of an example on this machine, by the commands that the gallery shows. The data are fetched,
or made by a generator, into the usual places; only the pictures are kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "gallery"
LARGEST = 150_000
COLOURS = 64
V1 = "examples/paddle_v1"
RUNS = {
    # name: directory, commands, and the picture that they leave
    "recommendation": (
        ".",
        ["umiak train examples/recommendation/config.py --workers 3 --passes 10 --out out/recommendation --overwrite"],
        "out/recommendation/curves.png",
    ),
    "quick_start_lr": (
        ".",
        ["umiak train examples/quick_start/lr.py --workers 3 --passes 10 --out out/lr --overwrite"],
        "out/lr/curves.png",
    ),
    "quick_start_emb": (
        ".",
        ["umiak train examples/quick_start/emb.py --workers 3 --passes 10 --out out/emb --overwrite"],
        "out/emb/curves.png",
    ),
    "ctr": (
        ".",
        ["umiak train examples/ctr/config.py --workers 3 --passes 3 --out out/ctr --overwrite"],
        "out/ctr/curves.png",
    ),
    "paddle_quick_start": (
        f"{V1}/quick_start",
        ["python prepare.py", "umiak show trainer_config.cnn.py --output out/cnn.png"],
        "out/cnn.png",
    ),
    "paddle_recommendation": (
        f"{V1}/recommendation",
        ["python prepare.py", "umiak show trainer_config.py --output out/towers.png"],
        "out/towers.png",
    ),
}


def draw(name: str) -> None:
    directory, commands, picture = RUNS[name]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "UMIAK_DATA": str(ROOT / "data"),
    }
    (ROOT / directory / "out").mkdir(exist_ok=True)
    for command in commands:
        print(f"$ {command}", flush=True)
        started = time.monotonic()
        subprocess.run(command, shell=True, cwd=ROOT / directory, env=environment, check=True)
        print(f"({time.monotonic() - started:.0f} s)", flush=True)
    PICTURES.mkdir(exist_ok=True)
    kept = PICTURES / f"{name}.png"
    with Image.open(ROOT / directory / picture) as drawn:
        drawn.convert("RGB").quantize(COLOURS).save(kept, optimize=True)
    size = kept.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"{kept} has {size} bytes, more than the {LARGEST} that a picture of the docs may have")


def main() -> None:
    names = sys.argv[1:] or list(RUNS)
    unknown = [name for name in names if name not in RUNS]
    if unknown:
        raise SystemExit(f"there is no picture {unknown[0]!r}; choose from {', '.join(RUNS)}")
    for name in names:
        draw(name)


if __name__ == "__main__":
    main()
