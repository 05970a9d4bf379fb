"""`umiak train` as the README shows it, and over TLS."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import numpy as np
import pytest

from tests.processes import TINY, snapshot_bytes, umiak

ROOT = Path(__file__).parents[1]


@pytest.fixture
def movielens(tmp_path: Path) -> Path:
    """A directory that stands for a fetched ml-100k, filled with made-up ratings."""
    directory = tmp_path / "data" / "ml-100k"
    directory.mkdir(parents=True)
    draw = np.random.default_rng(0)
    users, movies = draw.integers(1, 944, 100_000), draw.integers(1, 1683, 100_000)
    stars = np.clip(np.round(3 + np.sin(users) + np.cos(movies)), 1, 5).astype(int)
    lines = (f"{u}\t{m}\t{s}\t0" for u, m, s in zip(users, movies, stars, strict=True))
    (directory / "u.data").write_text("\n".join(lines) + "\n")
    (directory / "u.user").write_text("".join(f"{u}|30|F|artist|0\n" for u in range(1, 944)))
    genres = "|".join("0" * 19)
    (directory / "u.item").write_text("".join(f"{m}|Film {m} (1990)|||u|{genres}\n" for m in range(1, 1683)))
    return directory.parent


def test_the_first_model_of_the_readme_learns(tmp_path: Path, movielens: Path) -> None:
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "ratings.py").write_text(found[1])
    out = tmp_path / "out"
    words = ("train", tmp_path / "ratings.py", "--workers", "2", "--passes", "2", "--out", out)
    text = umiak(*words, UMIAK_DATA=str(movielens))
    first, second = (float(value) for value in re.findall(r"pass \d done .* test cost \S+ rmse (\S+)", text))
    assert second < first < 1.1
    assert str(out / "pass-00001") in text
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")


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
