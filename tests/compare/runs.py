"""The runs that two versions are compared by: each a directory to be in, and commands whose results must agree."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests import v1demo

ROOT = Path(__file__).parents[2]
SMALL = ("--workers=3", "--passes=2", "--log_period=10", "--out=out")


@dataclass(frozen=True)
class Run:
    """`steps` are umiak's arguments, one command after another. `exact` is False where only samples are counted."""

    name: str
    prepare: Callable[[Path], None]
    steps: tuple[tuple[str, ...], ...]
    exact: bool = True
    resumes: bool = False
    """Whether all steps but the last are the baseline's in both cases: a directory of before is resumed."""


def _config(path: Path) -> Callable[[Path], None]:
    def prepare(directory: Path) -> None:
        shutil.copy(path, directory / "config.py")

    return prepare


def _v1(directory: Path) -> None:
    v1demo.write(directory)


def _job(directory: Path) -> None:
    shutil.copytree(ROOT / "examples" / "recommendation", directory, dirs_exist_ok=True)


def _nothing(directory: Path) -> None:
    pass


TINY, ADMISSION = _config(ROOT / "tests" / "tiny.py"), _config(ROOT / "tests" / "compare" / "admission.py")
V1 = ("train", "trainer_config.demo.py", *SMALL)
CLUSTER = ("cluster", "init", "--name=compared", "--region=us-west-2")

RUNS = (
    Run("native, with dropout and BatchNorm", TINY, (("train", "config.py", *SMALL),)),
    Run("in one process", TINY, (("train", "config.py", "--local", *SMALL[1:]),)),
    Run("open tables with admission", ADMISSION, (("train", "config.py", *SMALL),)),
    Run("PaddlePaddle v1", _v1, ((*V1, "--config_args=method=rmsprop,sparse=1"),)),
    Run("PaddlePaddle v1, with a model average", _v1, ((*V1, "--config_args=method=momentum,clip=0.1,average=0.5"),)),
    Run(
        "TLS",
        TINY,
        (
            ("certs", "certificates", "--workers=3"),
            ("train", "config.py", *SMALL, "--transport=tcp", "--tls=certificates", "--port=21134"),
        ),
    ),
    Run("servers apart", TINY, (("train", "config.py", *SMALL, "--servers=2", "--ports_num_for_sparse=1"),)),
    Run(
        "resumed",
        ADMISSION,
        (("train", "config.py", *SMALL, "--passes=1"), ("train", "config.py", *SMALL, "--resume")),
        resumes=True,
    ),
    Run(
        "asynchronous",
        TINY,
        (("train", "config.py", *SMALL, "--mode=async", "--async_lagged_ratio_default=1000"),),
        exact=False,
    ),
    Run("a job's manifests", _job, (("job", "submit", "job.yaml", "--dry-run"),)),
    # The baseline writes cluster.yaml for both: its defaults may change, what follows from a file must not.
    Run(
        "a cluster's documents",
        _nothing,
        ((*CLUSTER, "--api-access=10.1.2.0/24"), ("cluster", "render")),
        resumes=True,
    ),
    Run(
        "a private cluster's documents",
        _nothing,
        ((*CLUSTER, "--api-access=private", "--spot"), ("cluster", "render")),
        resumes=True,
    ),
)
