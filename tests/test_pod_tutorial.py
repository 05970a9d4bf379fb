"""The pods of the old tutorials, as far as they go without a cluster: what they read, and the data they put on the volume."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from umiak.data import shards
from umiak.errors import InputError, RetryError
from umiak.paddle_v1.pods import rank, tutorial, tutorial_data
from umiak.pod.report import PodEnd

ENVIRONMENT = {
    "JOB_NAME": "paddle-cluster-job",
    "JOB_PATH": "/home/jobpath",
    "JOB_NAMESPACE": "default",
    "TRAIN_CONFIG_DIR": "quick_start",
    "CONF_PADDLE_NIC": "eth0",
    "CONF_PADDLE_PORT": "7164",
    "CONF_PADDLE_PORTS_NUM": "2",
    "CONF_PADDLE_PORTS_NUM_SPARSE": "2",
    "CONF_PADDLE_GRADIENT_NUM": "3",
    "TRAINER_COUNT": "3",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
}


def test_the_old_environment_is_read_as_it_was() -> None:
    told = tutorial.read(ENVIRONMENT, "2017")
    assert told.out == Path("/home/jobpath/paddle-cluster-job/output")
    assert (told.port, told.ports, told.sparse_ports, told.trainers) == (7164, 2, 2, 3)
    assert told.threads == 3


def test_in_2016_the_threads_were_fixed() -> None:
    without = {name: value for name, value in ENVIRONMENT.items() if name != "TRAINER_COUNT"}
    assert tutorial.read(without, "2016").threads == 4
    with pytest.raises(InputError, match="TRAINER_COUNT is not set"):
        tutorial.read(without, "2017")


@pytest.mark.parametrize("value", ["", "three", "0", "-1"])
def test_a_number_of_trainers_that_is_none_is_named(value: str) -> None:
    with pytest.raises(InputError, match="CONF_PADDLE_GRADIENT_NUM"):
        tutorial.read({**ENVIRONMENT, "CONF_PADDLE_GRADIENT_NUM": value}, "2017")


@pytest.fixture
def state(tmp_path: Path) -> tutorial.State:
    return tutorial.State(tutorial.read({**ENVIRONMENT, "JOB_PATH": str(tmp_path)}, "2017"), "run-1")


def test_rank_0_writes_keys_that_only_their_owner_can_read(state: tutorial.State) -> None:
    hosts = ("10.0.0.1", "10.0.0.2")
    token = state.keys(0, hosts)
    assert state.keys(1, hosts) == token
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.directory.rglob("*") if path.is_file()}
    assert modes["token"] == modes["key.pem"] == 0o600
    assert stat.S_IMODE(state.directory.stat().st_mode) == 0o700


def test_a_pod_that_came_in_the_place_of_a_lost_one_is_refused(state: tutorial.State) -> None:
    state.keys(0, ("10.0.0.1", "10.0.0.2"))
    with pytest.raises(RetryError, match=r"the pod at 10.0.0.1 was lost.*umiak job submit"):
        state.keys(1, ("10.0.0.2", "10.0.0.3"))


def test_the_first_end_of_a_job_is_its_end_for_all(state: tutorial.State) -> None:
    state.keys(0, ("10.0.0.1",))
    assert state.ended() is None
    state.end(PodEnd(75, "the cat is on the keyboard"), 1)
    state.end(PodEnd(2, "another reason"), 0)
    assert state.ended() == PodEnd(75, "this job has ended already: the cat is on the keyboard", because_of=1)


@pytest.mark.parametrize(
    ("outcome", "index", "stay"),
    [
        (PodEnd(0), 0, False),
        (PodEnd(75, "told to end"), 0, False),
        (PodEnd(1, "lost"), 1, False),
        (PodEnd(0), 1, True),
    ],
)
def test_the_keys_of_a_job_do_not_outlive_it(
    state: tutorial.State, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: PodEnd, index: int, stay: bool
) -> None:
    hosts = ("10.0.0.1", "10.0.0.2")
    place = rank.Place(index, hosts, "run-1")
    monkeypatch.setattr(tutorial, "_place", lambda told: place)
    monkeypatch.setattr(tutorial, "TERMINATION_LOG", tmp_path / "termination")
    monkeypatch.setattr(tutorial, "HOME", tmp_path / "home")
    monkeypatch.setattr(tutorial.TutorialPod, "live", lambda pod: outcome)
    monkeypatch.chdir(tmp_path)
    (state.directory.parents[1] / "quick_start").mkdir(parents=True)
    (state.directory.parents[1] / "quick_start" / "config.py").touch()
    state.keys(0, hosts)
    environment = {**ENVIRONMENT, "JOB_PATH": str(tmp_path)}
    assert tutorial.main(environment, "2017", ["config.py"]) == outcome.code
    secret = [path for path in state.directory.rglob("*") if path.name in ("token", "key.pem")]
    assert bool(secret) == stay
    if not stay:
        assert state.ended() is not None, "another pod would wait for keys that nobody writes any more"


@pytest.fixture
def image(tmp_path: Path) -> tuple[Path, Path]:
    """The two directories of the data image."""
    config, data = tmp_path / "image/quick_start", tmp_path / "image/data"
    for directory in (config, data):
        directory.mkdir(parents=True)
    (config / "trainer_config.lr.py").write_text("# a config\n")
    (data / "train.txt").write_text("".join(f"{n % 2}\tword{n}\n" for n in range(100)))
    (data / "dict.txt").write_text("unk\nword1\n")
    (data / "train.list").write_text("data/train.txt\n")
    return config, data


def test_the_data_pod_leaves_config_and_shards_in_the_layout_of_2017(tmp_path: Path, image: tuple[Path, Path]) -> None:
    out = tmp_path / "efs/paddle-cluster-job"
    assert tutorial_data.main({"OUT_DIR": str(out), "SPLIT_COUNT": "3"}, *image) == 0
    assert (out / "quick_start/trainer_config.lr.py").exists()
    assert (out / "2/data/dict.txt").read_text() == "unk\nword1\n"
    assert shards.verify(out).samples == 100


def test_the_data_pod_run_again_with_another_count_cuts_again_and_says_so(
    tmp_path: Path, image: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for count in ("3", "3", "4"):
        assert tutorial_data.main({"OUT_DIR": str(tmp_path / "out"), "SPLIT_COUNT": count}, *image) == 0
    assert "was split into 3 shards; it is split again into 4" in capsys.readouterr().err
    assert shards.verify(tmp_path / "out").shards == 4


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"SPLIT_COUNT": "3"}, "OUT_DIR is not set"),
        ({"OUT_DIR": "out", "SPLIT_COUNT": "many"}, "SPLIT_COUNT='many' is not a whole number"),
    ],
)
def test_the_data_pod_says_what_is_missing(
    environment: dict[str, str], told: str, image: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert tutorial_data.main(environment, *image) == 2
    assert told in capsys.readouterr().err
