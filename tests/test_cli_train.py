"""`umiak train` over TLS."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.processes import TINY, snapshot_bytes, umiak


def free_port() -> int:
    """The first of a few ports that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return min(port, 65000)


def test_training_over_tls_gives_the_same_bytes(tmp_path: Path) -> None:
    umiak("certs", tmp_path / "tls", "--workers", "2")
    words = ("train", TINY, "--workers", "2", "--passes", "1")
    umiak(*words, "--out", tmp_path / "plain")
    umiak(*words, "--out", tmp_path / "tls-run", "--tls", tmp_path / "tls", "--transport=tcp", f"--port={free_port()}")
    assert snapshot_bytes(tmp_path / "plain") == snapshot_bytes(tmp_path / "tls-run")
    log = (tmp_path / "tls-run" / "node_0" / "train.log").read_text()
    assert "127.0.0.1:" in log


def test_a_certificate_that_is_not_there_is_one_line_and_nothing_is_left_running(tmp_path: Path) -> None:
    umiak("certs", tmp_path / "tls", "--workers", "2")
    (tmp_path / "tls" / "worker-1" / "key.pem").unlink()
    words = ("train", TINY, "--workers", "2", "--out", tmp_path / "out", "--tls", tmp_path / "tls")
    error = umiak(*words, f"--port={free_port()}", code=2, timeout=60)
    assert "worker-1/key.pem is missing" in error
    assert error.count("\n") == 1
