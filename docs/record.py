"""Records a terminal session as an animated SVG: `python docs/record.py`, in the source tree, draws docs/session.svg.

The commands run for real, in a pseudo-terminal, and what they print is drawn as a terminal (pyte) shows it. Typing is added, and
pauses are cut: a still screen lasts at most STILL seconds. Without animation (print, reduced motion) the last screen is shown.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from html import escape
from itertools import groupby
from pathlib import Path

import pyte

ROOT = Path(__file__).parents[1]
COLUMNS, ROWS = 96, 24
CELL, LINE = 8.4, 18
STILL, END, KEY = 1.2, 4.0, 0.035
STEP = 0.25
"""Seconds between two screens that are drawn while a command runs."""
COMMANDS = (
    "umiak train ratings.py --workers 3 --passes 5 --out out/ratings",
    "umiak test out/ratings/pass-00004",
    "umiak predict out/ratings/pass-00004 --output predictions.txt && head -3 predictions.txt",
)
COLOURS = {
    "default": "#d8dee9",
    "black": "#3b4252",
    "red": "#e06c75",
    "green": "#98c379",
    "brown": "#e5c07b",
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
    "white": "#eceff4",
    "brightblack": "#7f8896",
}

Screen = tuple[tuple[tuple[str, str, bool], ...], ...]
"""Lines of runs of (text, colour, bold)."""


class Recorder:
    def __init__(self) -> None:
        self.terminal = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.terminal)
        self.frames: list[tuple[Screen, float]] = []

    def show(self, text: bytes, seconds: float) -> None:
        """What the screen looks like after `text`, for so long."""
        self.stream.feed(text)
        screen = tuple(_runs(self.terminal, row) for row in range(ROWS))
        if self.frames and self.frames[-1][0] == screen:
            before = self.frames.pop()[1]
            seconds = min(before + seconds, max(before, STILL))
        self.frames.append((screen, seconds))

    def type(self, command: str) -> None:
        self.show(b"\x1b[32m$\x1b[0m ", 0.6)
        for key in command:
            self.show(key.encode(), KEY)
        self.show(b"\r\n", 0.2)

    def run(self, command: str, directory: Path, environment: dict[str, str]) -> None:
        master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            command, shell=True, cwd=directory, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
        )
        os.close(terminal)
        waiting, shown = b"", time.monotonic()
        while True:
            ready = select.select([master], [], [], STEP)[0]
            try:
                data = os.read(master, 65536) if ready else b""
            except OSError:  # nobody has the terminal any more
                break
            waiting += data
            now = time.monotonic()
            if now - shown >= STEP:
                self.show(waiting, now - shown)
                waiting, shown = b"", now
        self.show(waiting, 0.8)
        os.close(master)
        if process.wait():
            raise SystemExit(f"{command}: exit code {process.returncode}")


def _runs(terminal: pyte.Screen, row: int) -> tuple[tuple[str, str, bool], ...]:
    cells = [terminal.buffer[row][column] for column in range(COLUMNS)]
    runs = [
        ("".join(cell.data for cell in group), colour, bold)
        for (colour, bold), group in groupby(cells, key=lambda cell: (cell.fg, cell.bold))
    ]
    while runs and not runs[-1][0].strip():
        runs.pop()
    return tuple(runs)


def svg(frames: list[tuple[Screen, float]]) -> str:
    """Every different line is drawn once; a screen is a column of references to lines; one animation goes through the screens."""
    width, height = COLUMNS * CELL + 24, ROWS * LINE + 52
    lines: dict[tuple[tuple[str, str, bool], ...], int] = {}
    screens = []
    for number, (screen, _) in enumerate(frames):
        used = []
        for row, line in enumerate(screen):
            if line:
                name = lines.setdefault(line, len(lines))
                used.append(f'<use href="#l{name}" y="{row * LINE}"/>')
        screens.append(f'<g transform="translate({number * 1000} 0)">{"".join(used)}</g>')
    total = sum(seconds for _, seconds in frames)
    steps, passed = [], 0.0
    for number, (_, seconds) in enumerate(frames):
        steps.append(f"{100 * passed / total:.3f}%{{transform:translateX({-1000 * number}px)}}")
        passed += seconds
    last = -1000 * (len(frames) - 1)
    steps.append(f"100%{{transform:translateX({last}px)}}")
    drawn = "".join(f'<g id="l{number}">{_drawn(line)}</g>' for line, number in lines.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}"
 role="img" aria-label="A terminal session: {escape("; ".join(COMMANDS))}">
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}}
.b{{font-weight:bold}}
.film{{transform:translateX({last}px);animation:film {total:.2f}s step-end infinite}}
@keyframes film{{{"".join(steps)}}}
@media (prefers-reduced-motion:reduce){{.film{{animation:none}}}}
@media print{{.film{{animation:none}}}}
</style>
<defs>{drawn}<clipPath id="c"><rect width="{COLUMNS * CELL + 2:g}" height="{ROWS * LINE + 4}"/></clipPath></defs>
<rect width="{width:g}" height="{height}" rx="8" fill="#1e222a"/>
<circle cx="20" cy="18" r="6" fill="#e06c75"/><circle cx="40" cy="18" r="6" fill="#e5c07b"/>
<circle cx="60" cy="18" r="6" fill="#98c379"/>
<g transform="translate(12 36)" clip-path="url(#c)"><g class="film" transform="translate({last} 0)">{"".join(screens)}</g></g>
</svg>
"""


def _drawn(line: tuple[tuple[str, str, bool], ...]) -> str:
    parts, column = [], 0
    for text, colour, bold in line:
        bare = text.strip()
        if bare:
            left = (column + len(text) - len(text.lstrip())) * CELL
            fill = COLOURS.get(colour, f"#{colour}" if len(colour) == 6 else COLOURS["default"])
            weight = ' class="b"' if bold else ""
            size = f'textLength="{len(bare) * CELL:.1f}"'
            parts.append(f'<text x="{left:.1f}" y="14" fill="{fill}" {size}{weight}>{escape(bare)}</text>')
        column += len(text)
    return "".join(parts)


def first_model() -> str:
    """The first model of the README."""
    return (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "session.svg")
    output = parser.parse_args().output
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "UMIAK_DATA": str(ROOT / "data"),
        "COLUMNS": str(COLUMNS),
        "LINES": str(ROWS),
    }
    subprocess.run(["umiak", "data", "fetch", "movielens"], env=environment, check=True)
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "ratings.py").write_text(first_model())
        for command in COMMANDS:
            recorder.type(command)
            recorder.run(command, Path(directory), environment)
    recorder.show(b"\x1b[32m$\x1b[0m ", END)
    screen, _ = recorder.frames.pop()
    recorder.frames.append((screen, END))
    output.write_text(svg(recorder.frames))
    print(f"{output}: {len(recorder.frames)} screens, {output.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
