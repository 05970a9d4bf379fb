"""--log-to: MLflow by its real server with SQLite, Weights & Biases in its offline mode."""

from __future__ import annotations

import contextlib
import functools
import json
import queue
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from tests import mlflow_server
from tests.processes import TINY, snapshot_bytes, start, umiak, wait_for
from umiak.errors import InputError
from umiak.messages.events import Round, encode_line
from umiak.sinks.feed import Feed
from umiak.sinks.parameters import parameters
from umiak.sinks.target import Target, targets

ROUNDS = ("--log_period", "10")


class Server:
    """MLflow's, started when its address is first asked for."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self.port, self._directory, self._stack = mlflow_server.free_port(), directory, stack

    @functools.cached_property
    def address(self) -> str:
        return self._stack.enter_context(mlflow_server.running(self._directory, self.port))


@pytest.fixture(scope="module")
def starting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with contextlib.ExitStack() as stack:
        yield Server(tmp_path_factory.mktemp("mlflow"), stack)


@pytest.fixture
def server(starting: Server) -> str:
    return starting.address


def runs(address: str, out: Path) -> list[Run]:
    client = MlflowClient(address)
    experiment = client.get_experiment_by_name("umiak")
    found = client.search_runs([experiment.experiment_id]) if experiment else []
    return [run for run in found if run.data.tags["umiak.out"] == str(out)]


def recorded(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_what_could_not_be_sent_is_sent_when_the_server_is_there(starting: Server, tmp_path: Path) -> None:
    """The first test: the server is not there yet."""
    out = tmp_path / "out"
    out.mkdir()
    told = [Round(0, number, number, 0.5, 10.0) for number in range(0, 3000, 10)]
    (out / "metrics.jsonl").write_bytes(b"".join(map(encode_line, told)))
    said: queue.Queue[str] = queue.Queue()
    feed = Feed([Target("mlflow", f"http://127.0.0.1:{starting.port}")], out, said.put)
    assert "cannot log there" in said.get(timeout=60)
    address, deadline = starting.address, time.monotonic() + 120
    while not (out / "sinks.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    feed.close("done", "pass-00000")
    [run] = runs(address, out)
    history = MlflowClient(address).get_metric_history(run.info.run_id, "round/cost")
    assert [metric.step for metric in history] == [event.round for event in told]
    assert run.info.status == "FINISHED" and said.empty()


def test_mlflow_has_the_config_the_metrics_and_the_snapshot_of_a_run(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    umiak("train", TINY, "--workers", "2", "--passes", "2", "--out", out, *ROUNDS, "--log-to", f"mlflow:{server}")
    [run] = runs(server, out)
    assert run.info.status == "FINISHED"
    assert run.data.tags["umiak.snapshot"] == str(out / "pass-00001")
    assert run.data.params["workers"] == "2" and run.data.params["num_passes"] == "2"
    history = MlflowClient(server).get_metric_history(run.info.run_id, "train/cost")
    passes = [each for each in recorded(out) if each["event"] == "pass"]
    assert [(m.step, m.value) for m in history] == [(each["round"], each["train"]["cost"]) for each in passes]  # type: ignore[index]
    names = set(run.data.metrics)
    assert {"round/cost", "round/samples_per_s", "test/cost"} <= names and any(n.endswith("/rows") for n in names)


def test_a_resumed_run_continues_in_the_same_mlflow_run_and_repeats_no_point(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("train", TINY, "--local", "--passes", "3", "--out", out, *ROUNDS, "--log-to", f"mlflow:{server}")
    process = start(*words, pause=0.02)
    wait_for(lambda: (out / "pass-00000").exists() and runs(server, out), process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    [run] = runs(server, out)
    assert run.info.status == "KILLED"
    umiak(*words, "--resume")
    [run] = runs(server, out)
    assert run.info.status == "FINISHED"
    history = MlflowClient(server).get_metric_history(run.info.run_id, "round/cost")
    rounds = [each["round"] for each in recorded(out) if each["event"] == "round"]
    assert [metric.step for metric in history] == rounds


def test_a_server_that_cannot_be_reached_is_told_once_and_changes_nothing(tmp_path: Path) -> None:
    gone = f"mlflow:http://127.0.0.1:{mlflow_server.free_port()}"
    common = ("--local", "--passes", "1")
    said = umiak("train", TINY, *common, "--out", tmp_path / "a", "--log-to", gone)
    umiak("train", TINY, *common, "--out", tmp_path / "b")
    assert snapshot_bytes(tmp_path / "a") == snapshot_bytes(tmp_path / "b")
    assert said.count(f"{gone}: cannot log there") == 1


def test_weights_and_biases_offline_keeps_a_run_for_sync(tmp_path: Path) -> None:
    out = tmp_path / "out"
    umiak(
        *("train", TINY, "--local", "--passes", "2", "--out", out, *ROUNDS, "--log-to", "wandb:team/project"),
        WANDB_MODE="offline",
    )
    [file] = out.glob("wandb/offline-run-*/*.wandb")
    kept = file.read_bytes()
    for expected in (b"train/cost", b"round/samples_per_s", b"num_passes", str(out / "pass-00001").encode()):
        assert expected in kept


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("mlflow",), "names no place for metrics; write mlflow:http://localhost:5000 or wandb:my-project"),
        (("wandb:",), "names no place"),
        (("comet:x",), "names no place"),
        (("mlflow:http://a:b@host",), "MLFLOW_TRACKING_PASSWORD"),
        (("wandb:a", "wandb:a"), "names a place twice"),
    ],
)
def test_a_wrong_place_is_refused(words: tuple[str, ...], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        targets(words)


def test_a_wrong_place_ends_training_before_anything_is_written(tmp_path: Path) -> None:
    told = umiak("train", TINY, "--out", tmp_path / "out", "--log-to", "comet:x", code=2)
    assert "--log-to comet:x names no place" in told and not (tmp_path / "out").exists()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umiak.sinks.target.missing", lambda extra: ["wandb"])
    with pytest.raises(InputError, match=r"--log-to wandb:… needs wandb: pip install 'umiak\[wandb\]'"):
        targets(["wandb:x"])


def test_several_places_at_once() -> None:
    assert targets(["mlflow:http://h:1", "wandb:t/p"]) == [Target("mlflow", "http://h:1"), Target("wandb", "t/p")]


def test_arguments_of_the_config_are_parameters_of_their_own() -> None:
    about = {"seed": 3, "flags": {"config_args": "dim=16,lr=0.1", "mode": "async"}}
    assert parameters(about) == {"mode": "async", "seed": "3", "dim": "16", "lr": "0.1"}
