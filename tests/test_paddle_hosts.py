"""Scripts around `paddle pserver` and `paddle train` on three hosts that share no disk: the bytes of one machine."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from tests import v1demo
from tests.hosts import MISSING, Host, hosts
from tests.processes import snapshot_bytes, umiak
from tests.v1command import installed

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
COUNT = 3
PASSES = 2
# In its order, so that a shard of the data is the same samples as every third of the whole.
CONFIG = (
    v1demo.CONFIG.replace("'shuffle', bool, True", "'shuffle', bool, False")
    .replace("'sparse', bool, False", "'sparse', bool, True")
    .replace("'method', str, 'adam'", "'method', str, 'adagrad'")
)
PSERVER = """mkdir -p log
nohup paddle pserver --num_gradient_servers=3 --nics=eth0 --port=7164 --ports_num=2 --ports_num_for_sparse=2 \
  --comment=paddle_process_by_paddle > ./log/server.log 2>&1 < /dev/null"""
TRAIN = """mkdir -p log
nohup paddle train {count} --nics=eth0 --port=7164 --ports_num=2 --comment=paddle_process_by_paddle --pservers={servers} \
  --dot_period=10 --ports_num_for_sparse=2 --log_period=50 --num_passes={passes} --trainer_count=1 --saving_period=1 --local=0 \
  --config=./trainer_config.py --save_dir=./output --use_gpu=0 --trainer_id={number} > ./log/train.log 2>&1 < /dev/null"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"{installed(tmp_path_factory.mktemp('bin'))}:{os.environ['PATH']}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole") / "job"
    v1demo.write(directory)
    (directory / "trainer_config.py").write_text(CONFIG)
    return directory


@pytest.fixture(scope="module")
def expected(whole: Path) -> dict[str, bytes]:
    before = Path.cwd()
    os.chdir(whole)
    try:
        sizes = ("--ports_num=2", "--ports_num_for_sparse=2")
        umiak("train", "trainer_config.py", "--workers=3", f"--passes={PASSES}", *sizes, "--out=output")
    finally:
        os.chdir(before)
    return snapshot_bytes(whole / "output")


def give(host: Host, whole: Path, number: int, token: str) -> None:
    """What a user puts on a host: the job with its part of the data, and the token, once."""
    data = host.disk / "data"
    data.mkdir()
    for name in ("reader.py", "trainer_config.py"):
        (host.disk / name).write_text((whole / name).read_text())
    for name in ("dict.txt", "test.list", "test-0.txt"):
        (data / name).write_text((whole / "data" / name).read_text())
    files = (whole / "data/train.list").read_text().split()
    lines = [line for file in files for line in (whole / file).read_text().splitlines(True)]
    (data / "train.txt").write_text("".join(lines[number::COUNT]))
    (data / "train.list").write_text("data/train.txt\n")
    if token:
        file = host.home / ".config/umiak/token"
        file.parent.mkdir(parents=True, mode=0o700)
        file.touch(0o600)
        file.write_text(f"{token}\n")


def train(members: list[Host], path: str, count: str) -> list[int]:
    servers = ",".join(host.address for host in members)
    started = [
        host.start(TRAIN.format(count=count, servers=servers, passes=PASSES, number=number), path)
        for number, host in enumerate(members)
    ]
    return [process.wait(120) for process in started]


@pytest.mark.parametrize("count", ["--num_gradient_servers=3", ""], ids=["cluster_train", "start_paddle"])
def test_three_hosts_end_with_the_bytes_of_three_workers_of_one(
    tmp_path: Path, path: str, whole: Path, expected: dict[str, bytes], count: str
) -> None:
    """Those of the tutorials do not tell the trainers how many they are."""
    token = secrets.token_hex(32)
    with hosts(COUNT, tmp_path) as members:
        for number, host in enumerate(members):
            give(host, whole, number, token)
            host.start(PSERVER, path)
        codes = train(members, path, count)
        told = "\n".join(host.said() for host in members)
        assert codes == [0] * COUNT, told
        assert snapshot_bytes(members[0].disk / "output") == expected
        assert not any((host.disk / "output").exists() for host in members[1:])
        assert token not in told and "Pass=1" in told


def test_hosts_without_a_common_token_are_told_what_to_copy(tmp_path: Path, path: str, whole: Path) -> None:
    with hosts(COUNT, tmp_path) as members:
        for number, host in enumerate(members):
            give(host, whole, number, token="")
            host.start(PSERVER, path)
        assert train(members, path, "") == [2] * COUNT
        for host in members:
            log = (host.disk / "log/train.log").read_text().splitlines()
            assert log[-1].startswith("paddle: ") and ("another job's token" in log[-1] or "no token: copy" in log[-1])
