"""docs/first-five-minutes.md, word for word, for each kind of user. Those with a cluster are in tests/kube.

What is installed is installed by tests.installed: pip would copy 5 GB. `make demo`, which `make test` must not take the time for,
is the demo's own command line.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests import installed
from tests.first_minutes import ROOT, commands, follow, section


def environment(home: Path) -> dict[str, str]:
    """A user's: our command on the path, and the data that was fetched before."""
    data = os.environ.get("UMIAK_DATA", str(ROOT / "data"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "UMIAK_DATA": data, "MPLCONFIGDIR": str(home)}


def error_of(log: str, name: str) -> float:
    """The last value of a metric in what a command printed."""
    return float(re.findall(rf"{name}[^\d]*([\d.]+)", log)[-1])


def test_a_clone(tmp_path: Path) -> None:
    blocks = section("Clone, demo, your own model")
    assert commands(blocks)[:3] == ["git clone URL-OF-THIS-REPOSITORY umiak", "cd umiak", "make demo"]
    done = subprocess.run(
        ["make", "--dry-run", "--old-file=.venv/ready", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "umiak data fetch movielens" in done.stdout and "umiak train" in done.stdout
    (model,) = [block.text for block in blocks if block.name == "ratings.py"]
    assert f"```python\n{model}```" in (ROOT / "README.md").read_text(), "the README shows a different first model"
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    told = follow(blocks, tmp_path, environment(tmp_path), ("git clone", "cd umiak", "make demo"))
    assert "umiak 0." in told and error_of(told, "rmse") < 1.0
    assert (tmp_path / "out" / "ratings" / "curves.png").exists() and (tmp_path / "predictions.txt").stat().st_size


def test_a_wheel_in_an_empty_directory(tmp_path: Path) -> None:
    blocks = section("Install the wheel, train in an empty directory")
    wheel = installed.wheel(tmp_path / "dist")
    (line,) = [line for line in commands(blocks) if line.startswith("pip install")]
    named = re.fullmatch(r"pip install '([\w.-]+\.whl)\[(\w+)\]'", line)
    assert named and named[1] == wheel.name
    empty = tmp_path / "empty"
    empty.mkdir()
    own = installed.install(wheel, empty / "venv", (named[2],))
    told = follow(blocks, empty, own.environment(), ("python3 -m venv", "pip install"))
    assert error_of(told, "rmse") < 0.4
    assert (empty / "out" / "songs" / "curves.png").exists()


@pytest.mark.slow
def test_a_notebook(tmp_path: Path) -> None:
    """In a real Jupyter kernel."""
    cells = [block.text for block in section("In a notebook") if block.language == "python"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    NotebookClient(book, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    curves, predicted = book.cells[-2].outputs, book.cells[-1].outputs
    assert any("image/png" in output.get("data", {}) for output in curves)
    values = [float(x) for x in re.findall(r"-?\d+\.\d+", predicted[-1]["data"]["text/plain"])]
    assert values == pytest.approx([5, 2, 2], abs=0.5)


def test_an_old_config(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("data", "out"))
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    told = follow(section("An old config"), tmp_path, environment(tmp_path))
    assert "classification_error" in told
    place = tmp_path / "examples" / "paddle_v1" / "quick_start"
    assert (place / "trainer_config.bidi-lstm.png").exists() and (place / "out" / "pass-00002").is_dir()
