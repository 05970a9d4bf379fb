"""`paddle` of 2016: its scripts run as they are, and end with the bytes of `umiak train`."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import v1demo
from tests.processes import kill_tree, snapshot_bytes, umiak
from tests.test_roles import free_port
from tests.v1command import environment, installed, shell
from umiak.paddle_v1.command import v1_roles
from umiak.spec.flags import parse
from umiak.wire.address import Address

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


def test_traffic_that_leaves_the_machine_is_encrypted_unless_somebody_said_not_to(tmp_path: Path) -> None:
    here, there = [Address("127.0.0.1", 7164)], [Address("127.0.0.1", 7164), Address("192.0.2.1", 7164)]
    for flags, addresses, encrypted in (
        ([], there, True),
        ([], here, False),
        (["--insecure"], there, False),
    ):
        with v1_roles._secured(parse("paddle pserver", flags), addresses, "secret") as settings:
            assert (settings.tls is not None) is encrypted
    with v1_roles._secured(parse("paddle train", [f"--tls={tmp_path}"]), there, "secret") as settings:
        assert settings.tls == tmp_path


def test_a_run_that_is_stopped_says_which_start_pass_continues_and_that_gives_its_bytes(path: Path, demo: Path) -> None:
    """With neither momentum nor dropout, so that a new start makes no difference."""
    train = f"paddle train --config={CONFIG} --config_args=method=sgd,lr=1 --save_dir=./output --dot_period=0 --log_period=1"
    umiak("train", CONFIG, "--local", "--config_args=method=sgd,lr=1", "--passes=3", "--out=reference")
    (demo / "reader.py").write_text(
        v1demo.PROVIDER.replace("        yield", "        time.sleep(0.003)\n        yield")
    )
    log = demo / "train.log"
    with running(f"exec {train}", path, demo, log) as process:
        deadline = time.monotonic() + 60
        while "Saving parameters to" not in log.read_text():
            assert time.monotonic() < deadline and process.poll() is None, log.read_text()
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 75
    last = log.read_text().splitlines()[-1]
    found = re.search(r"the last pass in \S+ is (\d+): start all trainers again with --start_pass=(\d+)$", last)
    assert found and int(found[2]) == int(found[1]) + 1, last
    start = int(found[2])
    shell(f"{train} --start_pass={start} --num_passes={3 - start}", path, demo)
    assert snapshot_bytes(demo / "output") == snapshot_bytes(demo / "reference")


def test_a_directory_with_checkpoints_of_umiak_train_is_not_written_over(path: Path, demo: Path) -> None:
    umiak("train", CONFIG, "--local", "--passes=1", "--out=output")
    before = snapshot_bytes(demo / "output")
    text = shell(f"paddle train --config={CONFIG} --save_dir=output", path, demo, code=2)
    assert text.splitlines()[-1].endswith(
        "holds checkpoints of umiak train, which would no longer fit to its snapshots: choose another --save_dir"
    )
    assert snapshot_bytes(demo / "output") == before
