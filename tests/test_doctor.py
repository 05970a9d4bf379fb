"""`umiak doctor` on machines that are broken for real: limits, disks, files, servers that refuse or never answer."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from umiak.doctor import machine, probes
from umiak.doctor.report import Check, exit_code, summary

QUIET = {"KUBECONFIG", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"}
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")


def doctor(
    *words: str, cwd: Path, mounts: str = "", files: int = 0, **more: str
) -> tuple[int, dict[str, dict[str, str]], str]:
    """Exit code, checks by name, and all that was printed."""
    command = [sys.executable, "-m", "umiak.cli.main", "doctor", *words]
    if mounts:
        command = ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh", *command]
    env = {name: value for name, value in os.environ.items() if name not in QUIET}
    env |= {"HOME": str(cwd), "AWS_EC2_METADATA_DISABLED": "true", **more}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))

    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=limit if files else None,
    )
    assert not done.stderr, done.stderr
    found = {each["name"]: each for each in json.loads(done.stdout)} if "--json" in words else {}
    return done.returncode, found, done.stdout


def test_a_machine_that_is_ready(tmp_path: Path) -> None:
    code, found, _ = doctor("--json", cwd=tmp_path)
    assert code == 0 and not [each for each in found.values() if each["status"] == "fail"]
    assert found["torch"]["status"] == "ok" and "imported in" in found["torch"]["found"]
    assert (found["kubeconfig"]["status"], found["aws"]["status"]) == ("none", "none")
    wanted = {
        "python",
        "system",
        "cores",
        "memory",
        "disk",
        "temporary",
        "shm",
        "files",
        "processes",
        "clock",
        "kernels",
    }
    assert wanted | {"extras", "torch", "kubeconfig", "aws"} == set(found)


@needs_root
def test_everything_that_is_broken_is_told_with_what_to_do(tmp_path: Path) -> None:
    """At once: full disks, low limits, a torch that does not load, a kubeconfig and credentials that are wrong."""
    (tmp_path / "full").mkdir()
    (tmp_path / "path" / "torch").mkdir(parents=True)
    (tmp_path / "path" / "torch" / "__init__.py").write_text(
        "raise ImportError('libcudart.so.12: cannot open shared object')"
    )
    (tmp_path / "kubeconfig").write_text("this is: [no kubeconfig")
    with answering(403, b"<ErrorResponse><Error><Code>InvalidClientTokenId</Code></Error></ErrorResponse>") as address:
        code, found, _ = doctor(
            "--json",
            cwd=tmp_path,
            mounts=f"mount -t tmpfs -o size=1m none {tmp_path / 'full'} && mount -t tmpfs -o size=1m none /dev/shm "
            f"&& cd {tmp_path / 'full'}",
            files=128,
            PYTHONPATH=str(tmp_path / "path"),
            KUBECONFIG=str(tmp_path / "kubeconfig"),
            AWS_ACCESS_KEY_ID="AKIAWRONG",
            AWS_SECRET_ACCESS_KEY="wrong",
            AWS_ENDPOINT_URL=address,
        )
    assert code == 2
    assert {name for name, each in found.items() if each["status"] == "fail"} == {
        "disk",
        "files",
        "torch",
        "kubeconfig",
        "aws",
    }
    assert {name for name, each in found.items() if each["status"] == "warn"} == {"shm", "processes"}
    assert "libcudart.so.12" in found["torch"]["found"]
    assert str(tmp_path / "kubeconfig") in found["kubeconfig"]["found"]
    assert found["aws"]["found"] == "AWS refuses the credentials (InvalidClientTokenId)"
    for each in found.values():
        assert each["status"] in ("ok", "none") or each["advice"] or ":" in each["found"], each


@needs_root
def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    mounts = f"mount -t tmpfs -o ro none {tmp_path} && cd {tmp_path}"
    code, _, told = doctor(cwd=tmp_path, mounts=mounts, HOME="/root")
    assert code == 2
    assert f"fail  disk        {tmp_path} cannot be written: change to a directory of yours, or give --out\n" in told
    assert told.endswith("the lines above say what to do\n")


@pytest.mark.slow
def test_a_cluster_that_never_answers_takes_no_more_than_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(probes.SECONDS, "kubeconfig", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("KUBECONFIG", str(file))
        process = probes._start("kubeconfig")
        began = time.monotonic()
        check = probes._result("kubeconfig", process, 2.0)
        probes._end(process)
    assert check.status == "fail" and "check the network" in check.advice
    assert time.monotonic() - began < 3 and process.poll() is not None


@pytest.mark.parametrize(("ahead", "status"), [(0, "ok"), (300, "warn")])
def test_a_cluster_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int, status: str) -> None:
    with answering(200, b'{"gitVersion": "v1.36.0"}', ahead) as address:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, address)))
        check = probes.kubeconfig()
    assert check.status == status and "answers, Kubernetes v1.36.0" in check.found
    assert bool(re.search(r"this clock is (299|300) s behind its own", check.found)) == (ahead > 0)


def test_a_kubeconfig_that_is_named_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    check = probes.kubeconfig()
    assert check.status == "fail" and f"no kubeconfig at {tmp_path / 'none'}" in check.found


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (machine._memory(100 << 20), "fail"),
        (machine._memory(1 << 30), "warn"),
        (machine._memory(None), "ok"),
        (machine._files(1024, 1024), "warn"),
        (machine._files(256, resource.RLIM_INFINITY), "ok"),
        (machine._processes(resource.RLIM_INFINITY), "ok"),
        (machine._clock(now=0, installed=time.time()), "fail"),
    ],
)
def test_what_is_judged(check: Check, status: str) -> None:
    assert check.status == status and bool(check.advice) == (status != "ok")


def test_the_exit_code_and_the_last_line() -> None:
    ok, warn, fail = (Check("a", status, "b", "c") for status in ("ok", "warn", "fail"))  # type: ignore[arg-type]
    assert [exit_code([ok]), exit_code([ok, warn]), exit_code([fail, ok])] == [0, 0, 2]
    assert summary([ok]) == "this machine is ready"
    assert summary([ok, warn, fail]) == "1 to repair and 1 to know; the lines above say what to do"


def kubeconfig(directory: Path, server: str) -> Path:
    named: dict[str, Any] = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
    }
    named |= {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}
    (directory / "config").write_text(json.dumps(named))
    return directory / "config"


@contextmanager
def answering(code: int, body: bytes, ahead: float = 0) -> Iterator[str]:
    """A server that gives one answer to everything, with a clock that may be wrong."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(int(time.time() + ahead))

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
