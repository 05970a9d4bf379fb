"""`umiak pserver` and `umiak trainer` started by hand, over TCP: the same bytes as `umiak train`, and clear ends."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fork_server import ForkedPopen
from tests.processes import TINY, kill_tree, snapshot_bytes, umiak
from umiak.errors import InputError, UmiakError
from umiak.spec.flags import parse
from umiak.wire import hello
from umiak.wire.address import Address, connect
from umiak.wire.frames import Channel
from umiak.wire.hello import Member
from umiak.worker import roles

HOSTS = ("127.0.0.1", "127.0.0.2")
SIZE = ("--ports_num=2", "--ports_num_for_sparse=1")
PASSES = "--passes=3"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("reference") / "run"
    umiak("train", TINY, "--workers", "2", *SIZE, PASSES, "--out", out)
    return snapshot_bytes(out)


def free_port(count: int = 3) -> int:
    """The first of some ports that are free on both hosts."""
    draw = random.Random(os.getpid())
    while True:
        port = draw.randrange(15000, 30000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for host in HOSTS:
                for number in range(count):
                    stack.enter_context(socket.socket()).bind((host, port + number))
            return port


class Role:
    """One role in a process of its own."""

    def __init__(self, *words: str | Path, cwd: Path, pause: float = 0.0, **environment: str) -> None:
        self.log = cwd / f"{words[0]}-{time.monotonic_ns()}.log"
        with self.log.open("w") as log:
            self.process = ForkedPopen(
                [sys.executable, "-m", "umiak.cli.main", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=cwd,
                env={**os.environ, "XDG_CONFIG_HOME": str(cwd), "UMIAK_TEST_PAUSE": str(pause), **environment},
            )

    def end(self, code: int, seconds: float = 60) -> str:
        """Wait for its end with this exit code; the last line it said."""
        got = self.process.wait(seconds)
        assert got == code, f"exit code {got}, expected {code}\n{self.log.read_text()}"
        return self.log.read_text().splitlines()[-1]

    def says(self, text: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.log.read_text():
            assert time.monotonic() < deadline and self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)


class Job:
    """Two servers and the flags that trainers need to find them."""

    def __init__(self, tmp_path: Path, *flags: str | Path, **environment: str) -> None:
        self.tmp_path, self.environment = tmp_path, environment
        self.port = free_port()
        self.flags = (*SIZE, f"--port={self.port}", "--num_gradient_servers=2", *flags)
        self.roles: list[Role] = []
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        words = ("pserver", *self.flags, f"--save_dir={tmp_path / 'run'}")
        self.servers = [self.role(*words, f"--nics={host}", cwd=elsewhere) for host in HOSTS]

    def role(self, *words: str | Path, cwd: Path, pause: float = 0.0) -> Role:
        self.roles.append(Role(*words, cwd=cwd, pause=pause, **self.environment))
        return self.roles[-1]

    def trainers(self, *flags: str | Path, pause: float = 0.0) -> list[Role]:
        """Both of them, the one that must wait for the other first."""
        words = ("trainer", TINY, *self.flags, f"--pservers={','.join(HOSTS)}", PASSES, "--out=run", *flags)
        late, first = (self.role(*words, f"--trainer_id={i}", cwd=self.tmp_path, pause=pause) for i in (1, 0))
        return [first, late]

    def join(self, index: int = 0, job: str = "umiak", token: bytes = b"", count: int = 2) -> Channel:
        """Greet the first service as a trainer would."""
        address = Address(HOSTS[0], self.port)
        return hello.join(address, Member(job, 0, "trainer", index, count), token, None, 30.0)


@contextlib.contextmanager
def job(tmp_path: Path, *flags: str | Path, **environment: str) -> Iterator[Job]:
    """Both servers; in the end they must go well when they are told."""
    running = Job(tmp_path, *flags, **environment)
    try:
        yield running
        for server in running.servers:
            server.process.terminate()
        for server in running.servers:
            server.end(0)
    finally:
        for role in running.roles:
            kill_tree(role.process.pid)
            role.process.wait(10)


def wait_for(path: Path, trainers: list[Role], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        assert all(trainer.process.poll() is None for trainer in trainers), [t.log.read_text() for t in trainers]
        time.sleep(0.02)


def test_roles_by_hand_give_the_bytes_of_umiak_train_whoever_knocks(
    tmp_path: Path, reference: dict[str, bytes]
) -> None:
    with job(tmp_path, UMIAK_JOB="mine", UMIAK_TOKEN="secret") as running:
        running.join(job="mine", token=b"secret").close()
        for name, token, message in [
            ("mine", b"guess", "another job's token"),
            ("theirs", b"secret", "not belong here"),
        ]:
            with pytest.raises(UmiakError, match=message):
                running.join(job=name, token=token)
        for host in HOSTS:
            for number in range(3):
                with connect(Address(host, running.port + number), None, 30.0) as sock:
                    sock.sendall(b"GET / HTTP/1.1\r\n\r\n" + b" " * 20)
        for trainer in running.trainers():
            trainer.end(0)
        assert snapshot_bytes(tmp_path / "run") == reference
        logs = [server.log.read_text() for server in running.servers]
        assert [text.count("not a frame of this protocol (begins with b'GET ')") for text in logs] == [3, 3]
        assert all("number of parameterServer instances: 3" in text for text in logs)
        assert all("ready for the next" in text and "pass END" in text for text in logs)


def test_roles_with_tls_give_the_same_bytes_and_one_that_is_told_to_stop_stops_all_with_a_checkpoint(
    tmp_path: Path, reference: dict[str, bytes]
) -> None:
    umiak("certs", tmp_path / "certs", "--workers", "2")
    with job(tmp_path, "--tls", tmp_path / "certs") as running:
        trainers = running.trainers(pause=0.05)
        wait_for(tmp_path / "run" / "pass-00000" / "done", trainers)
        for role in (*running.servers, trainers[1]):
            role.process.terminate()
        for trainer in trainers:
            assert trainer.end(75).endswith("with a checkpoint; start every trainer again with --resume")
        for server in running.servers:
            server.end(0)  # it has been told: a second signal would stop it at once
    with job(tmp_path, "--tls", tmp_path / "certs") as running:
        for trainer in running.trainers("--resume"):
            trainer.end(0)
        with socket.create_connection((HOSTS[0], running.port)) as sock:
            sock.sendall(b"plain text that is long enough to be taken for an answer")
        running.servers[0].says("it does not prove that it has the job's token")
    assert snapshot_bytes(tmp_path / "run") == reference


def test_when_a_trainer_is_killed_the_other_says_so_and_the_servers_finish_the_job_with_the_next_two(
    tmp_path: Path, reference: dict[str, bytes]
) -> None:
    with job(tmp_path) as running:
        first, second = trainers = running.trainers(pause=0.05)
        wait_for(tmp_path / "run" / "pass-00001" / "done", trainers)
        second.process.kill()
        line = first.end(75)
        assert line.startswith("umiak: trainer 1 was lost in round ") and line.endswith("again with --resume")
        for trainer in running.trainers("--resume"):
            trainer.end(0)
        assert "lost trainer 1 in round" in running.servers[0].log.read_text()
    assert snapshot_bytes(tmp_path / "run") == reference


def test_a_trainer_that_does_not_fit_is_told_why_and_ends_with_2(tmp_path: Path) -> None:
    with job(tmp_path) as running:
        holder = running.join(0)
        words = ("trainer", TINY, *running.flags, f"--pservers={HOSTS[0]}", "--out=run")
        twin = running.role(*words, "--trainer_id=0", cwd=tmp_path)
        many = running.role(*words, "--num_gradient_servers=3", "--trainer_id=1", cwd=tmp_path)
        early = running.role(*words, "--trainer_id=1", cwd=tmp_path)
        assert "trainer 0 is already here" in twin.end(2)
        assert "is one of 3, but this server was started with --num_gradient_servers=2" in many.end(2)
        early.says(f"pserver 2 {HOSTS[0]}:{running.port + 2}")
        early.process.send_signal(signal.SIGINT)
        assert early.end(75) == "umiak: stopped before training began"
        holder.close()


def test_a_trainer_alone_gives_the_bytes_of_umiak_train_local_and_job_test_tests_them(tmp_path: Path) -> None:
    umiak("train", TINY, "--local", "--passes=1", "--out", tmp_path / "reference")
    Role("trainer", TINY, "--local=1", "--passes=1", "--out=run", cwd=tmp_path).end(0)
    assert snapshot_bytes(tmp_path / "run") == snapshot_bytes(tmp_path / "reference")
    tested = Role("trainer", TINY, "--job=test", "--out=run", cwd=tmp_path)
    tested.end(0)
    assert "cost" in tested.log.read_text()


def test_a_port_in_use_is_named_with_the_process_that_holds_it(tmp_path: Path) -> None:
    with socket.create_server((HOSTS[0], 0)) as taken:
        port = taken.getsockname()[1]
        line = Role("pserver", f"--port={port}", cwd=tmp_path).end(2)
    assert line.startswith(f"umiak: port {port} is in use by process {os.getpid()} (") and "--port" in line


@contextlib.contextmanager
def listening(tmp_path: Path, *flags: str, **environment: str) -> Iterator[tuple[Role, int]]:
    """A server on every interface, that ends well when it is told; and its port."""
    port = free_port()
    server = Role("pserver", "--nics=", "--insecure", f"--port={port}", *flags, cwd=tmp_path, **environment)
    try:
        server.says("tcp server start")
        yield server, port
        server.process.send_signal(signal.SIGINT)
        server.end(0)
    finally:
        server.process.kill()
        server.process.wait(10)


def greet(port: int, token: bytes) -> Channel:
    return hello.join(Address(HOSTS[1], port), Member("umiak", 0, "trainer", 0, 1), token, None, 30.0)


def test_a_server_that_others_can_reach_has_a_token_and_makes_one_if_need_be(tmp_path: Path) -> None:
    file = tmp_path / "umiak" / "token"
    with listening(tmp_path) as (server, port):
        server.says(f"wrote a token to {file}: copy it to the same place on every other host")
        made = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600 and len(made) == 64
        for wrong in (b"", b"guess"):
            with pytest.raises(InputError, match="another job's token"):
                greet(port, wrong)
        greet(port, made.encode()).close()
        assert made not in server.log.read_text()
    with listening(tmp_path) as (server, port):
        greet(port, made.encode()).close()
        assert "wrote a token" not in server.log.read_text()
    with listening(tmp_path, UMIAK_TOKEN="given") as (server, port):
        greet(port, b"given").close()


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "umiak" / "token"
    file.parent.mkdir()
    for mode, content, told in (
        (0o644, "secret", "chmod 600"),
        (0o660, "secret", "chmod 600"),
        (0o600, "\n", "is empty"),
    ):
        file.write_text(content)
        file.chmod(mode)
        for words in (("pserver", "--nics=", "--insecure"), ("trainer", TINY, "--pservers=192.0.2.1", "--insecure")):
            line = Role(*words, cwd=tmp_path).end(2)
            assert str(file) in line and told in line


def test_a_trainer_without_the_token_is_told_what_to_copy_from_where(tmp_path: Path) -> None:
    line = Role("trainer", TINY, "--pservers=192.0.2.1", "--insecure", cwd=tmp_path).end(2)
    assert f"there is no token: copy {tmp_path}/umiak/token from the host of a parameter server" in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("pserver --nics=", r"traffic with 0\.0\.0\.0:20134 may leave this machine: give --tls DIR .* or --insecure"),
        ("trainer x.py --pservers=127.0.0.1,192.0.2.1", r"traffic with 192\.0\.2\.1:20134 may leave this machine"),
        ("pserver --nics=lo,nope0", r"--nics=nope0: no interface of that name has an IPv4 address; there are .*lo"),
        ("pserver --port=65535 --ports_num=2", r"the ports would be 65535 to 65536; write 1 to 65535"),
        ("pserver --port=0", "write 1 to 65535"),
        ("pserver --transport=unix", "roles on their own talk over TCP"),
        ("pserver --tls=nowhere", r"nowhere/ca\.pem is missing: write certificates with umiak certs"),
        ("trainer x.py --tls=nowhere", r"nowhere/ca\.pem is missing"),
        ("trainer x.py --pservers=127.0.0.1:7164", "name hosts without ports; --port is the first port"),
        ("trainer x.py --pservers=", "--pservers names no host"),
        (
            "trainer x.py --trainer_id=2 --num_gradient_servers=2",
            r"--trainer_id=2 is not one of 2 trainers: ids go from 0 to 1",
        ),
        ("trainer x.py --seed=0", "a different seed: write the same number for all"),
        ("trainer", "name a config file"),
    ],
)
def test_flags_that_cannot_work_are_refused_before_anything_starts(flags: str, message: str) -> None:
    verb, *words = flags.split()
    with pytest.raises(InputError, match=message):
        getattr(roles, verb)(parse(verb, words))
