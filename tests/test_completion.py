"""`umiak completion` in the shells themselves: what Tab offers after what a user has typed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from umiak.cli import main
from umiak.cli.commands import commands

CASES = [
    ("umiak trai", {"train", "trainer"}),
    ("umiak job sub", {"submit"}),
    ("umiak train --wor", {"--workers"}),
    ("umiak train --mode ", {"sync", "async"}),
    ("umiak train conf", {"config.py"}),
    ("umiak train config.py --out fir", {"first"}),
    ("umiak cluster render --o", {"--out"}),
    ("umiak data fetch --dir", {"--directory"}),
    ("umiak completion ", {"bash", "zsh", "fish"}),
    ("umiak paddle pser", {"pserver"}),
    ("umiak job status --js", {"--json"}),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("shell")
    (directory / "config.py").touch()
    (directory / "first").mkdir()
    for shell in ("bash", "zsh", "fish"):
        script = subprocess.check_output([sys.executable, "-m", "umiak.cli.main", "completion", shell], text=True)
        (directory / f".umiak.{shell}").write_text(script)
    return directory


def present(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    return path


def plain(words: list[str]) -> set[str]:
    return {word.split("\t")[0].rstrip("/") for word in words if word}


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_bash(place: Path, typed: str, offered: set[str]) -> None:
    words = typed.split(" ")
    program = f"""source .umiak.bash
compopt() {{ :; }}  # it works only while a key is pressed
COMP_WORDS=({" ".join(repr(word) for word in words)}) COMP_CWORD={len(words) - 1}
_umiak
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run([present("bash"), "-c", program], cwd=place, capture_output=True, text=True, check=True)
    assert not done.stderr and plain(done.stdout.splitlines()) == offered


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_fish(place: Path, typed: str, offered: set[str]) -> None:
    env = {**os.environ, "HOME": str(place), "XDG_CONFIG_HOME": str(place)}
    program = f"source .umiak.fish; complete -C '{typed}'"
    done = subprocess.run(
        [present("fish"), "-c", program], cwd=place, capture_output=True, text=True, check=True, env=env
    )
    assert not done.stderr and plain(done.stdout.splitlines()) == offered


ZSH = """
autoload -Uz compinit; compinit -u -D
source ./.umiak.zsh
compadd() { local -a found; builtin compadd -O found "$@"; print -rl -- $found >> matches; builtin compadd "$@"; }
probe() { : > matches; zle list-choices; mv matches answer; }
zle -N probe; bindkey '^I' probe
"""


def test_zsh(place: Path) -> None:
    """zsh completes only at a terminal. There, Tab writes down what the completion adds to the list."""
    zsh = present("zsh")
    (place / ".probe.zsh").write_text(ZSH)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place)
        os.execve(zsh, ["zsh", "-f", "-i"], {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": str(place)})
    try:
        os.write(terminal, b"source ./.probe.zsh; touch answer\n")
        _answer(terminal, place / "answer")
        for typed, offered in CASES:
            os.write(terminal, f"{typed}\t".encode())
            assert plain(_answer(terminal, place / "answer").splitlines()) == offered, typed
            os.write(terminal, b"\x15")  # empties the line
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def _answer(terminal: int, file: Path) -> str:
    """What zsh wrote, once it is there. What it prints meanwhile is read, else it would wait for us."""
    deadline = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline, "zsh does not answer"
        if select.select([terminal], [], [], 0.02)[0]:
            os.read(terminal, 65536)
    text = file.read_text()
    file.unlink()
    return text


def test_every_verb_and_every_verb_below_it_is_completed() -> None:
    found = {each.words: each for each in commands()}
    assert {words[0] for words in found} == set(main.VERBS)
    assert {("job", "submit"), ("cluster", "destroy"), ("data", "split"), ("paddle", "train")} <= set(found)
    train = {name for option in found["train",].options for name in option.names}
    assert {"--workers", "--passes", "--num-passes", "--out", "--resume"} <= train and "--config" not in train


def test_a_shell_that_is_not_known_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "umiak.cli.main", "completion", "csh"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "'csh'" in done.stderr and done.stderr.count("\n") == 1
