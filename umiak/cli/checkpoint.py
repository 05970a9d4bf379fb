"""`umiak checkpoint ls | show | verify DIR`: what a run can resume from."""

from __future__ import annotations

import argparse
import json
import math
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umiak.cli.arguments import Parser
from umiak.display.progress import duration

if TYPE_CHECKING:
    from umiak.rundir.inspection import Found

DAMAGED = 1


def run(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    code: int = options.verb(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="umiak checkpoint", description="The checkpoints of a run. These commands change nothing.")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    ls = verbs.add_parser("ls", help="list the checkpoints of an output directory")
    ls.add_argument("directory", metavar="DIR", type=Path, help="the output directory of a run")
    ls.add_argument("--json", action="store_true", help="print JSON")
    ls.set_defaults(verb=_ls)

    show = verbs.add_parser("show", help="what one checkpoint holds, and what wrote it")
    _one(show)
    show.set_defaults(verb=_show)

    verify = verbs.add_parser("verify", help="read all of one checkpoint and compare its checksums")
    _one(verify)
    verify.set_defaults(verb=_verify)
    return parser


def _one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", type=Path, help="an output directory, or one checkpoint in it")
    parser.add_argument("--round", type=int, metavar="N", help="the checkpoint of this round (default: the newest)")


def _ls(options: argparse.Namespace) -> int:
    from umiak.rundir import inspection

    found = inspection.listing(options.directory)
    if options.json:
        print(json.dumps([_described(each) for each in found], indent=1))
        return 0
    for each in found:
        if each.manifest is None:
            print(f"{each.path.name:<24} {each.problem}")
            continue
        print(
            f"{each.path.name:<24} round {each.round:>9,}  pass {each.manifest.pass_id:>4}  {each.bytes:>16,} bytes  "
            f"{_when(each.time)}  {_age(each.time)}"
        )
    whole = [each for each in found if each.manifest]
    print(f"a resumed run begins at round {whole[-1].round:,}" if whole else "no run can resume from any of these")
    return 0


def _show(options: argparse.Namespace) -> int:
    from umiak.rundir import inspection

    found = inspection.chosen(options.directory, options.round)
    pieces = inspection.pieces_of(found)
    manifest = found.manifest
    assert manifest is not None
    rows = [
        ("checkpoint", str(found.path)),
        ("round", f"{found.round:,}"),
        ("pass", str(manifest.pass_id)),
        ("samples", f"{manifest.samples:,}"),
        ("generation", "of umiak 0.1.0" if found.generation is None else str(found.generation)),
        ("committed", f"{_when(found.time)} ({_age(found.time)})"),
        ("written on", ", ".join(f"{name} {value}" for name, value in manifest.machine.items())),
        *((key.removeprefix("the "), _short(key, value)) for key, value in manifest.identity.items()),
    ]
    width = max(len(key) for key, _ in rows)
    for key, value in rows:
        print(f"{key:<{width}}  {value}")
    for piece in pieces:
        print(f"{piece.name:<24} {piece.bytes:>16,} bytes  crc32 {piece.crc32:08x}")
    print(f"{'all':<24} {found.bytes:>16,} bytes")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from umiak.rundir import inspection

    found = inspection.chosen(options.directory, options.round)
    wrong = 0
    for piece, problem in inspection.damage(found):
        print(problem or f"{piece.name}: {piece.bytes:,} bytes, as they were written")
        wrong += bool(problem)
    if wrong:
        print(
            f"{found.path} is damaged. A run that resumes finds this out by itself and uses the checkpoint before it."
        )
        return DAMAGED
    print(f"{found.path} is whole")
    return 0


def _described(found: Found) -> dict[str, object]:
    manifest = found.manifest
    return {
        "path": str(found.path),
        "round": found.round,
        "generation": found.generation,
        "pass": manifest.pass_id if manifest else None,
        "samples": manifest.samples if manifest else None,
        "bytes": found.bytes if manifest else None,
        "committed": found.time if manifest else None,
        "problem": found.problem or None,
    }


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _age(seconds: float) -> str:
    return f"{duration(max(0.0, time.time() - seconds))} ago"


def _short(name: str, value: Any) -> str:
    """What a run must have in common with this one to resume."""
    if name == "the model's parameters":
        return f"{len(value)}, with {sum(math.prod(shape) for shape in value.values()):,} values"
    if name == "the model's tables":
        return ", ".join(f"{table}: {_rows(*size)}" for table, size in value.items()) or "none"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _rows(length: int, count: int | None) -> str:
    return f"open, rows of {length}" if count is None else f"{count:,} rows of {length}"
