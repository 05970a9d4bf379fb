"""`paddle survey DIR`: every v1 config below a directory, and whether it trains here, builds, or is refused and why."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from umiak.cli.arguments import Parser
from umiak.cli.paddle.environment import paddle_version
from umiak.errors import InputError
from umiak.paddle_v1.command.attempt import REFUSED, Finding
from umiak.paddle_v1.dialect import is_v1
from umiak.spec.settings import PADDLE_VERSIONS

ABOUT = """Each config runs in a process of its own, in its own directory, with no --config_args. A config whose training data are
there trains a few batches, of which nothing is kept; one whose data are not there can only be built."""
CALLS = re.compile(rb"^(?:settings|Settings|outputs|Outputs)\s*\(", re.MULTILINE)
"""What a config does and a module or a data provider beside it does not, outside of its functions."""


def run(argv: list[str]) -> int:
    parser = Parser(prog="paddle survey", description=ABOUT)
    parser.add_argument("directory", type=Path, help="where configs are looked for")
    parser.add_argument("--paddle_version", default="", choices=("", *PADDLE_VERSIONS), help="which v1 they are of")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long one config may take (60)")
    parser.add_argument("--batches", type=int, default=3, help="how many batches to train (3)")
    options = parser.parse_args(argv)
    directory = options.directory.resolve()
    if not directory.is_dir():
        raise InputError(f"there is no directory {options.directory}")
    if options.batches < 1 or options.seconds <= 0:
        raise InputError("--batches and --seconds must be above 0")
    version = paddle_version(options.paddle_version) or "0.10"
    configs = list(found(directory))
    if not configs:
        raise InputError(
            f"there is no v1 config below {options.directory}: no file that imports paddle and calls settings(…)"
        )
    print("| config | result | why |\n| --- | --- | --- |")
    for config in configs:
        finding = tried(config, version, options.batches, options.seconds)
        why = finding.why.replace(f"{directory}/", "").replace("\n", " ").replace("|", "\\|")
        print(f"| {config.relative_to(directory)} | {finding.result} | {why} |", flush=True)
    return 0


def found(directory: Path) -> Iterator[Path]:
    """The configs below a directory, but not those that snapshots hold copies of."""
    for path in sorted(directory.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(directory).parts)
        if path.suffix not in (".py", ".conf") or hidden or not path.is_file() or (path.parent / "done").exists():
            continue
        with chdir(path.parent):
            if CALLS.search(path.read_bytes()) and is_v1(path):
                yield path


def tried(config: Path, version: str, batches: int, seconds: float) -> Finding:
    with tempfile.TemporaryDirectory() as place:
        result = Path(place) / "finding.json"
        command = [
            sys.executable,
            "-m",
            "umiak.paddle_v1.command.attempt",
            str(config),
            version,
            str(batches),
            str(result),
        ]
        process = subprocess.Popen(
            command,
            cwd=config.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Finding(REFUSED, f"it took longer than {seconds:g} s (--seconds)")
        finally:
            _end(process)
        if result.exists():
            return Finding(**json.loads(result.read_text()))
        last = (said.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        return Finding(REFUSED, f"its process ended with code {process.returncode}: {last}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and those it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.communicate()
