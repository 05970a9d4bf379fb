"""docs/first-five-minutes.md as a script: the files a section has its reader save, and the commands it has them type."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "first-five-minutes.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVE = re.compile(r"[Ss]ave this as `([\w.]+)`")


@dataclass(frozen=True)
class Block:
    """A piece of code: commands (sh), or Python to be saved under a `name`, or typed into a notebook if it has none."""

    language: str
    text: str
    name: str = ""


def section(title: str) -> list[Block]:
    """The code below a heading, in its order."""
    (body,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    blocks, end = [], 0
    for found in _FENCE.finditer(body):
        saved = _SAVE.search(body[end : found.start()].replace("\n", " "))
        blocks.append(Block(found[1], found[2], saved[1] if saved else ""))
        end = found.end()
    return blocks


def commands(blocks: list[Block]) -> list[str]:
    return [line for block in blocks if block.language == "sh" for line in block.text.splitlines()]


def follow(blocks: list[Block], cwd: Path, environment: dict[str, str], leave_out: tuple[str, ...] = ()) -> str:
    """Save the files and type the commands in one shell, block by block; what it printed. Ends at the first that fails.

    Lines that begin with one of `leave_out` are not typed: whoever calls this has done what they do.
    """
    script = ["set -e"]
    for block in blocks:
        if block.name:
            script += [f"cat > {block.name} <<'END-OF-FILE'", block.text.rstrip("\n"), "END-OF-FILE"]
        elif block.language == "sh":
            script += [line for line in block.text.splitlines() if not line.startswith(leave_out or ("\0",))]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
