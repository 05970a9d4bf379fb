"""Bad input gets one clear line and exit code 2, and leaves nothing running."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.processes import TINY, descendants, kill_tree, snapshot_bytes, start, umiak, wait_until_gone


def config(tmp_path: Path, extra: str, name: str = "config.py") -> Path:
    """The tiny config with some lines after it."""
    path = tmp_path / name
    path.write_text(TINY.read_text() + "\nimport dataclasses\n" + extra + "\n")
    return path


def one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].startswith("umiak: "), text
    return lines[0]


def refused(*words: str | Path, **environment: str) -> str:
    return one_line(umiak(*words, code=2, **environment))


def test_a_config_that_does_not_load_is_named_with_its_line_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import umiak\n\nvalue = 1 / 0\n")
    message = refused("train", path, "--out", tmp_path / "out")
    assert f"{path}:3" in message and "ZeroDivisionError" in message
    path.write_text("def f(:\n")
    assert f"{path}:1" in refused("train", path, "--out", tmp_path / "out")
    path.write_text("x = 1\n")
    assert "does not define `config`" in refused("train", path, "--out", tmp_path / "out")
    assert "cannot read" in refused("train", tmp_path / "none.py", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_loss_that_is_not_finite_names_pass_batch_and_parameter(tmp_path: Path) -> None:
    extra = "config = dataclasses.replace(config, optimizer=umiak.SGD(lr=1e12))"
    message = refused("train", config(tmp_path, extra), "--workers", "2", "--out", tmp_path / "out")
    assert "not finite" in message or "the loss is" in message
    assert "pass 0" in message and ("batch" in message or "round" in message)
    assert any(
        name in message for name in ("out.weight", "out.bias", "user.weight", "item.weight", "words.weight", "norm.")
    )


def test_a_provider_that_raises_is_named_with_file_and_line(tmp_path: Path) -> None:
    extra = (
        "def samples():\n    yield {'user': 1}\n    raise ValueError('bad record')\n"
        "config = dataclasses.replace(config, train=umiak.data.provider(samples))"
    )
    path = config(tmp_path, extra)
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "bad record" in text)
    message = refused("train", path, "--workers", "2", "--out", tmp_path / "out")
    assert f"{path}:{line}" in message and "bad record" in message


def test_a_model_that_raises_is_named_with_file_and_line(tmp_path: Path) -> None:
    extra = (
        "class Bad(Model):\n    def forward(self, batch):\n        return batch['nothing']\n"
        "config = dataclasses.replace(config, model=Bad)"
    )
    path = config(tmp_path, extra)
    message = refused("train", path, "--workers", "2", "--out", tmp_path / "out")
    assert f"{path}:" in message and "KeyError" in message


def test_an_id_outside_a_declared_vocabulary_is_named(tmp_path: Path) -> None:
    extra = "data = table(1, 100)\ndata['user'][7] = 50\nconfig = dataclasses.replace(config, train=data)"
    message = refused("train", config(tmp_path, extra), "--local", "--out", tmp_path / "out")
    assert "id 50" in message and "'user'" in message and "num_embeddings=50" in message


def test_a_port_in_use_is_named_with_the_process_that_holds_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused(
            "train", TINY, "--workers", "1", "--transport", "tcp", "--port", port, "--out", tmp_path / "out"
        )
    assert f"port {port}" in message and f"process {os.getpid()}" in message


def test_an_output_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot write to" in refused("train", TINY, "--local", "--out", tmp_path / "file" / "out")


def test_an_output_directory_that_holds_a_run_is_refused_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    umiak("train", TINY, "--local", "--passes", "1", "--out", out)
    before = snapshot_bytes(out)
    message = refused("train", TINY, "--local", "--out", out)
    assert "--resume" in message and "--overwrite" in message
    assert snapshot_bytes(out) == before
    assert "no checkpoint" in refused("train", TINY, "--local", "--resume", "--out", tmp_path / "empty")


def test_resume_with_another_config_or_number_of_workers_says_what_differs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    umiak("train", TINY, "--workers", "2", "--passes", "1", "--out", out)
    message = refused("train", TINY, "--workers", "1", "--passes", "2", "--resume", "--out", out)
    assert "the number of workers" in message and "--init-from" in message
    other = config(tmp_path, "config = dataclasses.replace(config, batch_size=32)", "tiny.py")
    assert "batch_size" in refused("train", other, "--workers", "2", "--passes", "2", "--resume", "--out", out)


def test_a_snapshot_of_another_model_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    umiak("train", TINY, "--local", "--passes", "1", "--out", out)
    extra = (
        "class Wider(Model):\n    def __init__(self):\n        super().__init__()\n        self.more = nn.Linear(3, 3)\n"
        "config = dataclasses.replace(config, model=Wider)"
    )
    message = refused(
        "train", config(tmp_path, extra), "--local", "--init_model_path", out / "pass-00000", "--out", tmp_path / "new"
    )
    assert "more.weight" in message and "another model" in message


def test_use_gpu_says_clearly_where_there_is_none(tmp_path: Path) -> None:
    assert "no CUDA device" in refused("train", TINY, "--workers", "1", "--use_gpu", "--out", tmp_path / "out")


def test_ctrl_c_stops_with_a_checkpoint_and_resume_gives_the_same_bytes(tmp_path: Path) -> None:
    job = ("train", str(TINY), "--workers", "2", "--passes", "3")
    umiak(*job, "--out", tmp_path / "whole")
    process = start(*job, "--out", tmp_path / "run", pause=0.05)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "run" / "pass-00000" / "done").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        below = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        kill_tree(process.pid)
    assert process.returncode == 75 and "--resume" in one_line(err)
    wait_until_gone(below)
    umiak(*job, "--out", tmp_path / "run", "--resume")
    assert snapshot_bytes(tmp_path / "run") == snapshot_bytes(tmp_path / "whole")


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(tmp_path: Path) -> None:
    job = ("train", str(TINY), "--workers", "2")
    umiak(*job, "--passes", "3", "--out", tmp_path / "whole")
    umiak(*job, "--passes", "2", "--out", tmp_path / "run")
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    piece = newest / "service-1.safetensors"
    data = bytearray(piece.read_bytes())
    data[-1] ^= 1
    piece.write_bytes(data)
    text = umiak(*job, "--passes", "3", "--out", tmp_path / "run", "--resume")
    assert str(piece) in text and "damaged" in text
    assert snapshot_bytes(tmp_path / "run") == snapshot_bytes(tmp_path / "whole")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_disk_that_fills_during_training_ends_the_job_and_keeps_the_last_checkpoint_whole(tmp_path: Path) -> None:
    job = ("train", str(TINY), "--workers", "2", "--passes", "3")
    umiak(*job, "--out", tmp_path / "whole")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], check=True)
    try:
        process = start(*job, "--out", small / "run", pause=0.05)
        try:
            deadline = time.monotonic() + 60
            while not list((small / "run").glob("checkpoints/*/manifest.json")):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            filler = small / "filler"
            with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 4096)
            _, err = process.communicate(timeout=60)
        finally:
            kill_tree(process.pid)
        assert process.returncode == 2 and "no space left" in one_line(err), err
        filler.unlink(missing_ok=True)
        umiak(*job, "--out", small / "run", "--resume")
        assert snapshot_bytes(small / "run") == snapshot_bytes(tmp_path / "whole")
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_two_jobs_at_once_into_one_directory_do_not_mix(tmp_path: Path) -> None:
    first = start("train", TINY, "--workers", "1", "--passes", "4", "--out", tmp_path / "out", pause=0.08)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "out" / "metrics.jsonl").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        second = refused("train", TINY, "--workers", "1", "--passes", "4", "--out", tmp_path / "out", "--overwrite")
        _, err = first.communicate(timeout=120)
    finally:
        kill_tree(first.pid)
    assert f"another umiak (process {first.pid}) is training into" in second
    assert first.returncode == 0, err
    assert (tmp_path / "out" / "pass-00003" / "done").exists()
