"""`paddle` of 2016: its scripts run as they are, and end with the bytes of `umiak train`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import v1demo
from tests.processes import kill_tree, snapshot_bytes, umiak
from tests.test_roles import free_port
from tests.v1command import environment, installed, shell

CONFIG = "trainer_config.demo.py"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("bin"))


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    v1demo.write(tmp_path / "demo")
    monkeypatch.chdir(tmp_path / "demo")
    return tmp_path / "demo"


@contextmanager
def running(words: str, path: Path, cwd: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A script in the background, ended with all it started."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["bash", "-c", words],
            cwd=cwd,
            env=environment(path, XDG_CONFIG_HOME=str(path / "config")),
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
        )
    try:
        yield process
    finally:
        kill_tree(process.pid)
        process.wait(10)


def test_paddle_train_alone_gives_the_bytes_of_umiak_train_local_and_writes_over_an_earlier_run(
    path: Path, demo: Path
) -> None:
    umiak("train", CONFIG, "--local", "--passes=2", "--out=reference")
    script = f"""set -e
    paddle train --config={CONFIG} --save_dir=./output --num_passes=2 --log_period=20 --use_gpu=false \\
      --show_parameter_stats_period=100 --test_all_data_in_one_period=1 2>&1 | tee train.log
    paddle usage -l train.log -e $? -n demo
    """
    first = shell(script, path, demo)
    assert "Test samples=50" in first and "nothing is sent anywhere" in first
    assert snapshot_bytes(demo / "output") == snapshot_bytes(demo / "reference")
    assert not (demo / "output" / "checkpoints").exists()
    again = shell(script, path, demo)
    assert "each is replaced when this run has come as far" in again
    assert snapshot_bytes(demo / "output") == snapshot_bytes(demo / "reference")


def test_the_scripts_of_quick_start_cluster_run_as_they_are(path: Path, demo: Path) -> None:
    """A server with a sparse port that the trainer does not use, on the loopback interface: no token."""
    port = free_port()
    server = (
        f"paddle pserver --nics=lo --port={port} --ports_num=1 --ports_num_for_sparse=1 --num_gradient_servers=1 \\\n"
    )
    server += "  --comment=paddle_pserver 2>&1 | tee pserver.log"
    with running(server, path, demo, demo / "server.out"):
        shell(
            f"""set -e
            paddle train --start_pserver=false --config={CONFIG} --save_dir={demo}/output --trainer_count=1 --local=0 \\
              --log_period=100 --num_passes=2 --use_gpu=false --show_parameter_stats_period=100 \\
              --test_all_data_in_one_period=1 --num_gradient_servers=1 --nics=lo --port={port} --ports_num=1 \\
              --pservers="127.0.0.1" --comment="paddle_trainer" 2>&1 | tee train.log""",
            path,
            demo,
        )
    umiak("train", CONFIG, "--workers=1", "--passes=2", "--out=reference", "--own_data")
    assert snapshot_bytes(demo / "output") == snapshot_bytes(demo / "reference")
    assert "Pass=1" in (demo / "train.log").read_text()
    shutil.rmtree(demo / "output")


def test_start_pserver_starts_the_server_beside_the_trainer(path: Path, demo: Path) -> None:
    shell(
        f"paddle train --config={CONFIG} --local=0 --start_pserver=1 --nics=lo --port={free_port()} --num_passes=1 "
        "--save_dir=./output",
        path,
        demo,
    )
    umiak("train", CONFIG, "--workers=1", "--passes=1", "--out=reference", "--own_data")
    assert snapshot_bytes(demo / "output") == snapshot_bytes(demo / "reference")
