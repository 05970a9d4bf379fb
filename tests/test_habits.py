"""Rules of the repository that a machine can check: no machine's paths, locks that fit, workflows that pin and may do little."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import locks, machine_paths

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_no_file_names_a_path_or_a_package_index_of_this_machine() -> None:
    assert machine_paths.offences(machine_paths.tracked(), machine_paths.forbidden()) == []


def test_a_path_of_this_machine_is_found_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text(f"first\nsee {ROOT}/notes\n")
    assert machine_paths.offences([file], machine_paths.forbidden()) == [f"{file}:2: {ROOT}"]


def test_the_index_that_pip_is_told_to_use_counts_as_this_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:secret@packages.example.net:8443/simple")
    assert "packages.example.net" in machine_paths.forbidden()
    monkeypatch.setenv("PIP_INDEX_URL", "https://pypi.org/simple")
    assert "pypi.org" not in machine_paths.forbidden()


def test_lock_files_fit_pyproject() -> None:
    assert locks.main() == 0


def test_a_lock_that_lacks_a_package_or_has_it_too_old_is_told() -> None:
    project = {"dependencies": ["numpy>=2", "torch"], "optional-dependencies": {"s3": ["boto3"]}}
    lock = "numpy==1.26.4 \\\n    --hash=sha256:00\ntorch==2.13.0\n"
    assert locks.differences(project, ("s3",), lock) == [
        "numpy is 1.26.4, but pyproject.toml wants >=2",
        "boto3 is not in it",
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_pins_its_actions_and_may_only_read(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses: (\S+)", text)
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each) for each in used), used
    assert "\npermissions:\n  contents: read\n" in text and "write" not in text
    assert text.count("persist-credentials: false") == text.count("uses: actions/checkout@")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"make ([a-z-]+)", text)) <= targets


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed (see CONTRIBUTING.md)")
def test_actionlint_finds_nothing_in_the_workflows() -> None:
    done = subprocess.run(["actionlint", *map(str, WORKFLOWS)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_make_alone_lists_every_target_with_one_line() -> None:
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = " ".join(re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)).split()
    listed = [line.split()[1] for line in said.splitlines() if line.startswith("  make ")]
    assert sorted(listed) == sorted(set(phony) - {"help"})
