"""What a newcomer does wrong in the first five minutes. Each ends with exit code 2 or 75 and one line that says what to do."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.first_minutes import section
from tests.processes import TINY


def told(*words: str | Path, cwd: Path, code: int = 2, wrap: tuple[str, ...] = (), **more: str) -> str:
    """The one line a command ends with."""
    done = subprocess.run(
        [*wrap, sys.executable, "-m", "umiak.cli.main", *map(str, words)],
        cwd=cwd,
        env={**{k: v for k, v in os.environ.items() if k != "KUBECONFIG"}, "HOME": str(cwd), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    *before, line = done.stderr.splitlines()
    assert all(re.match(r"[IWE]\d{4} ", each) for each in before), f"more than one line that is no log: {done.stderr}"
    return line


def test_no_verb_of_that_name(tmp_path: Path) -> None:
    assert told("trian", cwd=tmp_path) == "umiak: unknown verb 'trian', did you mean train?; umiak --help lists all"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["train", "ratings.py"], "ratings.py"),
        (["test", "out/pass-00004"], "out/pass-00004"),
        (["job", "submit"], "umiak job init"),
        (["cluster", "render"], "umiak cluster init"),
    ],
)
def test_the_wrong_directory(tmp_path: Path, words: list[str], wanted: str) -> None:
    line = told(*words, cwd=tmp_path)
    assert wanted in line and "Traceback" not in line
    assert list(tmp_path.iterdir()) == []


def test_no_data(tmp_path: Path) -> None:
    (block,) = [each for each in section("Install the wheel, train in an empty directory") if each.name == "songs.py"]
    (tmp_path / "songs.py").write_text(block.text)
    line = told("train", "songs.py", "--local", "--out", "out", cwd=tmp_path)
    assert "train.csv" in line and re.search(r"no such file|not found|does not exist|no file", line, re.IGNORECASE), (
        line
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a disk that refuses root")
def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    wrap = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o ro none {tmp_path}/locked && exec "$@"', "sh")
    line = told("train", TINY, "--local", "--out", "locked/out", cwd=tmp_path, wrap=wrap)
    assert "locked" in line and "Read-only" in line


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        words = ("pserver", "--port", str(port), "--num_gradient_servers", "1", "--insecure", "--nics", "lo")
        line = told(*words, cwd=tmp_path)
    assert f"port {port} is in use by process {os.getpid()}" in line and "--port" in line


@pytest.mark.parametrize("wrong", ["missing", "rubbish", "nobody there"])
def test_the_wrong_kubeconfig(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "kubeconfig"
    if wrong == "rubbish":
        file.write_text("apiVersion: [")
    elif wrong == "nobody there":
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        named = {
            "clusters": [cluster],
            "contexts": [context],
            "users": [{"name": "u", "user": {}}],
            "current-context": "x",
        }
        file.write_text(json.dumps(named))
    line = told("job", "ls", cwd=tmp_path, code=75 if wrong == "nobody there" else 2, KUBECONFIG=str(file))
    assert {"missing": str(file), "rubbish": str(file), "nobody there": "127.0.0.1"}[wrong] in line
