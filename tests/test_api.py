"""umiak.train, umiak.load and umiak.join, as scripts and notebooks use them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import umiak
from tests.processes import TINY, alive, descendants, kill_tree, wait_until_gone
from tests.trainers import no_collection
from tests.trainers import train as train_here
from umiak.data import Columns, provider
from umiak.errors import InputError, RetryError


class Line(nn.Module):
    """A model of a module that can be imported; its first values come from no shared random state."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = umiak.nn.SparseEmbedding(1, 5, std=0.1)
        self.slope = nn.Parameter(torch.zeros(3))

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return batch["x"] @ self.slope + self.bias(batch["group"])[:, 0]


def data(samples: int = 60) -> Columns:
    draw = np.random.default_rng(3)
    x, group = draw.standard_normal((samples, 3)).astype(np.float32), draw.integers(0, 5, samples)
    return Columns({"x": x, "group": group, "y": (x @ [1, 2, 3] + group).astype(np.float32)})


def error(output: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.mse_loss(output, batch["y"])


def config(**changes: Any) -> umiak.Config:
    fields = {"model": Line, "train": data(), "test": data(), "loss": error, "optimizer": umiak.Adam(0.05)}
    return umiak.Config(**{**fields, "batch_size": 10, **changes})  # type: ignore[arg-type]


@pytest.mark.slow
def test_training_an_object_after_torch_was_used_gives_curves_and_the_model(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A process that has run backward() cannot be forked any more: torch would hang in the child."""
    weight = torch.randn(200, 200, requires_grad=True)
    (weight @ weight).sum().backward()
    shift = 0.5

    class Shifted(Line):
        """Known to this test alone, so it must travel to the trainers by value."""

        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return super().forward(batch) + shift

    result = umiak.train(config(model=Shifted), workers=2, passes=3, out=tmp_path / "out")
    assert [entry["pass"] for entry in result.curves] == [0, 1, 2]
    costs = [entry["test"]["cost"] for entry in result.curves]
    assert costs[2] < costs[0]
    assert (result.out, result.snapshot) == (tmp_path / "out", tmp_path / "out/pass-00002")
    batch = {name: torch.from_numpy(data()[name]) for name in data().names}
    assert float(error(result.model(batch), batch)) == pytest.approx(costs[2], rel=1e-5)
    assert "pass 2 done" in capfd.readouterr().out
    assert "3 passes" in repr(result)


@pytest.mark.slow
def test_training_a_file_needs_a_directory_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result = umiak.train(TINY, passes=1, out=tmp_path, local=True, quiet=True)
    assert isinstance(result.model.norm, nn.BatchNorm1d)
    assert capfd.readouterr().out == ""
    with pytest.raises(
        InputError, match=r"already holds a run: continue it with resume=True, .*overwrite=True, .*out="
    ):
        umiak.train(TINY, passes=2, out=tmp_path, local=True)


def failing() -> Iterator[dict[str, int]]:
    yield {"x": 1}
    raise OSError("the disk is gone")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"worker": 2}, r"unknown flag worker=, did you mean workers=\?"),
        ({}, {"workers": 0}, "workers=0 is too small; write at least 1"),
        ({}, {"passes": 0}, "passes must be at least 1"),
        ({"train": provider(failing)}, {}, r"failing raised OSError: the disk is gone at .*test_api\.py:\d+"),
    ],
)
def test_what_is_wrong_with_the_input_is_raised_here(
    changes: dict[str, Any], arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        umiak.train(config(**changes), **{"out": tmp_path / "out", "local": True, "quiet": True, **arguments})


def test_a_config_that_cannot_travel_says_so(tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(InputError, match=r"cannot be sent to the training process: .*lock.*write the config to a file"):
        umiak.train(config(loss=lambda output, batch: lock), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


SCRIPT = """
import sys, umiak
print(umiak.train(sys.argv[1], workers=2, passes=2, out=sys.argv[2], local="local" in sys.argv, resume="resume" in sys.argv))
"""


def start_script(out: Path, *more: str, pause: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(TINY), str(out), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "UMIAK_TEST_PAUSE": str(pause)},
    )


def wait_for(path: Path, text: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, f"{path} does not say {text!r}"
        time.sleep(0.05)


def test_ctrl_c_stops_with_a_checkpoint_and_resume_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = start_script(out, "local", pause=0.2)
    try:
        wait_for(out / "node_0/train.log", ".")
        script.send_signal(signal.SIGINT)
        printed, raised = script.communicate(timeout=60)
    finally:
        kill_tree(script.pid)
    assert "stopping with a checkpoint" in printed
    assert "KeyboardInterrupt: stopped in pass 0, round" in raised and "resume=True" in raised
    assert list(out.glob("checkpoints/*/manifest.json"))
    again = start_script(out, "local", "resume", pause=0)
    printed, raised = again.communicate(timeout=120)
    assert again.returncode == 0 and "2 passes" in printed, raised


def test_a_job_whose_caller_is_killed_stops_with_a_checkpoint(tmp_path: Path) -> None:
    script = start_script(tmp_path, pause=0.2)
    started: list[int] = []
    try:
        wait_for(tmp_path / "node_0/train.log", ".")
        started = descendants(script.pid)
        script.kill()
        script.wait()
        wait_until_gone(started, seconds=30)
        assert list(tmp_path.glob("checkpoints/*/manifest.json"))
    finally:
        for pid in started:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def own_loop(job: Any, costs: list[float] | None = None) -> None:
    for batch in job.batches():
        loss = error(job.model(batch), batch)
        loss.backward()
        cost = job.step(loss)
        if costs is not None:
            costs.append(cost)


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob("pass-*/*"))}


def test_a_loop_of_ones_own_gives_the_bytes_of_training(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    costs: list[float] = []
    with umiak.join(config(), passes=2, out=tmp_path / "joined") as job:
        own_loop(job, costs)
        _, tested = job.test()
    train_here(config(), tmp_path / "trained", num_passes=2)
    assert files(tmp_path / "joined") == files(tmp_path / "trained")
    assert len(costs) == 12 and costs[-1] < costs[0]
    assert tested["cost"] < costs[0]
    assert torch.get_num_threads() == threads


def test_without_an_output_directory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with umiak.join(config(), passes=1) as job:
        own_loop(job)
    assert list(tmp_path.iterdir()) == []


def test_a_batch_without_its_step_is_an_error() -> None:
    with pytest.raises(InputError, match=r"job.step\(\) was not called for a batch"), umiak.join(config()) as job:
        for _ in job.batches():
            continue
    with pytest.raises(InputError, match=r"job.step\(\) was called twice for one batch"), umiak.join(config()) as job:
        batches = job.batches()
        batch = next(batches)
        loss = error(job.model(batch), batch)
        loss.backward()
        job.step(loss)
        job.step(loss)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an `umiak pserver` for two trainers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    command = [sys.executable, "-m", "umiak.cli.main", "pserver", f"--port={number}", "--num_gradient_servers=2"]
    command.append("--save_dir=/")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        yield number
        process.terminate()


def test_trainers_in_loops_of_their_own_join_through_a_server(tmp_path: Path, port: int) -> None:
    def trainer(index: int) -> None:
        with umiak.join(
            config(), trainer_id=index, trainers=2, pservers=["127.0.0.1"], port=port, passes=2, out=tmp_path / "joined"
        ) as job:
            own_loop(job)

    with no_collection(), ThreadPoolExecutor(2) as pool:
        list(pool.map(trainer, range(2)))
    train_here(config(batch_size=20), tmp_path / "alone", num_passes=2)
    joined, alone = (umiak.load(tmp_path / name, config()) for name in ("joined", "alone"))
    torch.testing.assert_close(joined.slope, alone.slope, rtol=1e-5, atol=1e-6)


def test_a_loop_that_fails_leaves_the_server_to_the_next(port: int) -> None:
    def trainer(index: int) -> None:
        with umiak.join(config(), trainer_id=index, trainers=2, pservers=["127.0.0.1"], port=port, passes=1) as job:
            for number, _ in enumerate(job.batches()):
                if index == 1 or number:
                    raise ZeroDivisionError
                job.step(torch.tensor(1.0))

    with no_collection(), ThreadPoolExecutor(2) as pool:
        first, second = [pool.submit(trainer, index) for index in range(2)]
        assert isinstance(second.exception(), ZeroDivisionError)
        assert isinstance(first.exception(), RetryError) and "trainer 1 was lost" in str(first.exception())
        first, second = [pool.submit(trainer, index) for index in range(2)]
        assert isinstance(second.exception(), ZeroDivisionError), "the server took both trainers again"
        assert isinstance(first.exception(), RetryError)


def test_many_trainers_need_servers() -> None:
    message = r"2 trainers need parameter servers: name their hosts with pservers="
    with pytest.raises(InputError, match=message), umiak.join(config(), trainers=2):
        pass


def test_importing_the_interface_does_not_import_torch() -> None:
    program = "import sys, umiak; umiak.train, umiak.join, umiak.load; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
