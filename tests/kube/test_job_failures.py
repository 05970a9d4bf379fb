"""Jobs that fail by their own fault: the exit code, and the first failure first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kube.jobs import TrainingJob
from tests.kube.namespace import Namespace
from tests.processes import TINY


@pytest.fixture
def variant(tmp_path: Path) -> Path:
    return tmp_path / "variant.py"


def test_a_config_that_raises_in_pass_1_fails_the_job_with_its_error(
    namespace: Namespace, tmp_path: Path, variant: Path
) -> None:
    """Only worker 1 raises: it is the first failure, and the others failed because of it."""
    raises = """
import os
_forward = Model.forward
_calls = 0
def forward(self, batch):
    global _calls
    _calls += self.training
    if os.environ["JOB_COMPLETION_INDEX"] == "1" and _calls > SAMPLES // 2 // 16 + 5:
        raise ValueError("the cat is on the keyboard")
    return _forward(self, batch)
Model.forward = forward
"""
    variant.write_text(TINY.read_text() + raises)
    job = TrainingJob.write(namespace, tmp_path, config=variant)
    job.submit()
    said = job.wait(code=2)
    assert "the cat is on the keyboard" in said
    problems = job.status()["problems"]
    assert problems[0]["worker"] == 1 and problems[0]["because_of"] is None
    assert "the cat is on the keyboard" in problems[0]["what"] + problems[0]["log"]
    assert {problem["because_of"] for problem in problems[1:]} <= {1}
    # A Job that fails removes pods that have not quite ended: one of the two is there.
    assert any("the cat is on the keyboard" in job.run("logs", "--worker", str(worker)) for worker in range(2))
    job.delete()


def test_a_worker_that_outgrows_its_memory_is_told_so(namespace: Namespace, tmp_path: Path, variant: Path) -> None:
    grows = """
import os
_forward = Model.forward
_kept = []
def forward(self, batch):
    if self.training and os.environ["JOB_COMPLETION_INDEX"] == "1":
        _kept.append(np.ones(1 << 23))
    return _forward(self, batch)
Model.forward = forward
"""
    variant.write_text(TINY.read_text() + grows)
    job = TrainingJob.write(namespace, tmp_path, config=variant, memory="1200Mi")
    job.submit()
    said = job.wait(code=1)
    assert "memory" in said and "worker 1" in said
    first = job.status()["problems"][0]
    assert first["worker"] == 1 and "memory" in first["what"] + first["fix"]
    job.delete()


def test_a_full_volume_ends_the_job_with_a_line_that_says_so(
    small_volume: Path, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.claim("small", "/small")
    filler = small_volume / "filler"
    job = TrainingJob.write(namespace, tmp_path, volume={"claim": "small"}, pause=0.1)
    try:
        job.submit()
        job.until_training()
        with filler.open("wb") as file:
            free = shutil.disk_usage(small_volume).free
            file.write(bytes(max(0, free - 4096)))
        said = job.wait(code=2)
        assert "no space left on the disk" in said
        assert "no space left on the disk" in job.status()["problems"][0]["what"]
    finally:
        filler.unlink(missing_ok=True)
        job.run("delete", "--output")
