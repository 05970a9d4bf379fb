"""What a run has saved: checkpoints, snapshots, what would be lost now, and the commands that use them."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from umiak.page import safe
from umiak.page.answers import AtRisk, Checkpoint, Command, Run, Snapshot
from umiak.page.masking import HIDDEN, masked
from umiak.page.values import count
from umiak.rundir import layout
from umiak.spec.settings import FLAGS

_PASS = re.compile(re.escape(layout.PASS) + r"(\d{5})")
_ROUND = re.compile(r"round-(\d{1,15})(?:-(\d{1,9}))?")
_NOT_AGAIN = (
    "config",
    "save_dir",
    "resume",
    "resume_round",
    "overwrite",
    "init_from",
    "init_model_path",
    "page",
    "keep_page",
)
"""Flags of the first start that a resumed run does without."""


def checkpoints(path: Path, roots: Sequence[Path]) -> list[Checkpoint]:
    """Those that a run can resume from, oldest first."""
    found: list[tuple[int, int, Checkpoint]] = []
    for name in _names(path / layout.CHECKPOINTS):
        known = _ROUND.fullmatch(name)
        manifest = path / layout.CHECKPOINTS / name / layout.MANIFEST
        try:
            if known is None or (text := safe.read(manifest, roots)) is None:
                continue
            size = sum(count(piece["bytes"]) for piece in json.loads(text)["pieces"])
            when = manifest.lstat().st_mtime
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        made: Checkpoint = {"name": name, "round": int(known[1]), "time": when, "bytes": size}
        found.append((made["round"], int(known[2] or -1), made))
    return [made for _, _, made in sorted(found, key=lambda each: each[:2])]


def _names(path: Path) -> list[str]:
    try:
        return [each.name for each in path.iterdir()]
    except OSError:
        return []


def snapshots(path: Path) -> list[Snapshot]:
    link = path / layout.BEST
    try:
        best = link.readlink().name if link.is_symlink() else ""
    except OSError:
        best = ""
    found: list[Snapshot] = []
    for each in sorted(path.glob(f"{layout.PASS}*")):
        number = _PASS.fullmatch(each.name)
        try:
            if number is None or each.is_symlink():
                continue
            when = (each / layout.DONE).lstat().st_mtime
            size = sum(file.lstat().st_size for file in each.iterdir())
        except OSError:
            continue
        found.append(
            {"name": each.name, "pass": int(number[1]), "time": when, "bytes": size, "best": each.name == best}
        )
    return found


def at_risk(run: Run, last: tuple[int, float] | None) -> AtRisk | None:
    """What a run that trains would have to repeat. `last`: round and time of its newest checkpoint."""
    if run["state"] not in ("running", "silent") or run["round"] is None:
        return None
    since = last[1] if last else run["started"]
    rounds = run["round"] - (last[0] if last else 0)
    return {"seconds": max(0.0, time.time() - since) if since else 0.0, "rounds": max(0, rounds)}


def commands(path: Path, about: Mapping[str, Any], resumable: bool, found: list[Snapshot]) -> list[Command]:
    """To be pasted into a shell: every word is quoted as it needs to be."""
    out = printable(path)
    given: list[tuple[str, list[str]]] = []
    config = about.get("config")
    if resumable and config:
        given.append(("Resume", ["umiak", "train", str(config), *_flags(about), "--out", out, "--resume"]))
    if found:
        chosen = next((each["name"] for each in found if each["best"]), found[-1]["name"])
        given.append(("Test", ["umiak", "test", f"{out}/{chosen}"]))
        given.append(("Export", ["umiak", "export", f"{out}/{chosen}", "--output", f"{chosen}.safetensors"]))
    return [{"title": title, "command": shlex.join(words)} for title, words in given]


def _flags(about: Mapping[str, Any]) -> list[str]:
    """Those of `umiak train` that the run was started with; one whose value is hidden is left to the user."""
    flags = about.get("flags")
    words = []
    for name, value in flags.items() if isinstance(flags, dict) else ():
        flag = FLAGS.get(str(name))
        if flag is None or name in _NOT_AGAIN or "train" not in flag.verbs or HIDDEN in masked(str(value), str(name)):
            continue
        words.append(f"--{(flag.aliases or (name,))[0].replace('_', '-')}={value}")
    return words


def printable(path: Path) -> str:
    """As text, also where its bytes are none."""
    return str(path).encode(errors="replace").decode()
