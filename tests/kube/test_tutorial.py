"""The tutorials of 2016 and 2017 by their own YAML, unmodified, in the namespace `default` as it is written there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kube import images
from tests.kube.cluster import Cluster
from tests.kube.namespace import Namespace
from tests.kube.places import CLONE
from tests.processes import umiak
from umiak.data import shards
from umiak.errors import UmiakError

HERE = Path(__file__).parent / "tutorial"
JOB = "paddle-cluster-job"
WAIT_20_SECONDS = """        - name: UMIAK_WAIT_SECONDS
          value: "20"
"""
HOST_PATH = Path("/home/admin/efs")
DOCKER = CLONE / "docker" / "tutorial"
EXAMPLES = CLONE / "examples" / "paddle_v1"
PASSES = 10
# The first of them may have to wait for all of test_whole_way.py, which uses the same namespace, and that counts as its own time.
pytestmark = [pytest.mark.usefixtures("default_namespace"), pytest.mark.timeout(1800)]


def publish(cluster: Cluster, name: str, dockerfile: str, context: Path) -> None:
    files = [path for path in sorted(context.rglob("*")) if path.is_file()]
    depends: list[str | Path] = [*(str(path.relative_to(context)) for path in files), *files]
    text = (DOCKER / dockerfile).read_text()
    arguments = {"RUNTIME": images.ensure().tag}
    cluster.publish(f"docker.io/{name}", images.build(text, name.partition(":")[0], context, depends, arguments))


def prepared(example: str, target: Path) -> Path:
    """An example's directory with its data in the layout of 2016."""
    shutil.copytree(EXAMPLES / example, target, ignore=shutil.ignore_patterns("data", "__pycache__"))
    environment = {"UMIAK_DATA": str(CLONE / "data"), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(CLONE)}
    subprocess.run([sys.executable, "prepare.py"], cwd=target, env=environment, check=True)
    return target


@pytest.fixture(scope="module", autouse=True)
def published(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The three images under the names that the YAML has."""
    for name in ("reviews", "movielens"):
        umiak("data", "fetch", name, "--directory", CLONE / "data")
    publish(cluster, "paddlepaddle/paddle-tutorial:k8s_train", "train.Dockerfile", DOCKER)
    publish(cluster, "drinkcode/paddle:k8s-job", "train-2016.Dockerfile", DOCKER)
    context = prepared("quick_start", tmp_path_factory.mktemp("image") / "quick_start")
    publish(cluster, "paddlepaddle/paddle-tutorial:k8s_data", "data.Dockerfile", context)


class Tutorial:
    """What somebody who follows the tutorial types and sees."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def volume(self) -> Path:
        """The nfs path / of the tutorial's PersistentVolume."""
        return self.cluster.volume.parent

    @property
    def directory(self) -> Path:
        return self.volume / JOB

    def create(self, name: str, **changes: str) -> None:
        """`kubectl create -f`; `changes` are for tests of what goes wrong, written into the text."""
        text = (HERE / name).read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        self.cluster.kubectl("create", "-f", "-", text=text)

    def allow(self) -> None:
        self.cluster.kubectl("apply", "-f", "-", text=umiak("job", "legacy"))

    def pods(self, job: str = JOB) -> list[dict[str, Any]]:
        return self.cluster.pods("default", f"job-name={job}")

    def condition(self, job: str = JOB) -> str:
        conditions = self.cluster.get(f"apis/batch/v1/namespaces/default/jobs/{job}")["status"].get("conditions") or []
        return next((each["type"] for each in conditions if each["type"] in ("Complete", "Failed")), "")

    def wait(self, wanted: str, job: str = JOB, seconds: float = 240) -> None:
        deadline = time.monotonic() + seconds
        while (found := self.condition(job)) != wanted:
            assert not found, f"{job} is {found}\n{self.logs(job)}"
            assert time.monotonic() < deadline, f"{job} did not become {wanted}\n{self.logs(job)}"
            time.sleep(0.25)

    def logs(self, job: str = JOB) -> str:
        return "\n".join(
            f"--- {pod['metadata']['name']} {pod['status']['phase']}\n{self.cluster.log(pod)}" for pod in self.pods(job)
        )

    def ends_with(self, told: str, code: int) -> None:
        """A pod ends with this exit code and says so. The Job itself keeps trying for a while."""
        try:
            ended = lambda: any(told in end["cause"] and end["exit"] == code for end in self.endings())  # noqa: E731
            self.cluster.wait(f"a pod that ends with {told!r}", ended, 120)
        except UmiakError as error:
            raise AssertionError(f"{error}\n{self.endings()}\n{self.logs()}") from error

    def endings(self) -> list[dict[str, Any]]:
        """How the pods that have ended say they did."""
        found = []
        for pod in self.pods():
            for status in pod["status"].get("containerStatuses") or []:
                ended = status["state"].get("terminated")
                if ended and ended.get("message", "").startswith("{"):
                    found.append({"exit": ended["exitCode"], **json.loads(ended["message"])})
        return found


@pytest.fixture
def tutorial(cluster: Cluster) -> Iterator[Tutorial]:
    made = Tutorial(cluster)
    try:
        yield made
    finally:
        for job in (JOB, "paddle-data"):
            cluster.kubectl("delete", "job", job, "--ignore-not-found", "--cascade=foreground", timeout=180)
        cluster.kubectl("delete", "pvc,role,rolebinding", "--all", "-n", "default")
        cluster.kubectl("delete", "pv", "efsvol", "--ignore-not-found")
        shutil.rmtree(made.directory, ignore_errors=True)
        shutil.rmtree(HOST_PATH / JOB, ignore_errors=True)
        with suppress(OSError):
            HOST_PATH.rmdir()
            HOST_PATH.parent.rmdir()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data") / JOB


@pytest.fixture
def with_data(tutorial: Tutorial, kept: Path) -> Tutorial:
    """There are a volume and the data, and pods may be listed. The data Job runs once; later tests get what it wrote."""
    tutorial.create("2017-volume.yaml")
    tutorial.allow()
    if kept.exists():
        subprocess.run(["cp", "-a", kept, tutorial.directory], check=True)
        return tutorial
    tutorial.create("2017-data.yaml")
    tutorial.wait("Complete", "paddle-data", 120)
    subprocess.run(["cp", "-a", tutorial.directory, kept], check=True)
    return tutorial


def test_the_tutorial_of_2017_from_the_volume_to_the_model(with_data: Tutorial) -> None:
    directory = with_data.directory
    assert shards.verify(directory).shards == 3
    with_data.create("2017-train.yaml")
    with pytest.raises(UmiakError, match="already exists"):
        with_data.create("2017-train.yaml")
    with_data.wait("Complete")
    passes = sorted(path.name for path in (directory / "output").glob("pass-*"))
    assert passes == [f"pass-{number:05d}" for number in range(PASSES)]
    assert (directory / "output/pass-00009/___fc_layer_0__.w0").exists()
    for rank in range(3):
        log = (directory / f"output/node_{rank}/train.log").read_text()
        assert "Test samples=" in log and "classification_error_evaluator=" in log
        assert (directory / f"output/node_{rank}/server.log").exists()
    costs = [
        line for line in (directory / "output/node_0/train.log").read_text().splitlines() if "Test samples=" in line
    ]
    first, last = (float(line.partition("cost=")[2].split()[0]) for line in (costs[0], costs[-1]))
    assert last < first
    left = [path.name for path in (directory / ".umiak").rglob("*") if path.is_file()]
    assert not {"token", "key.pem"} & set(left), "keys outlive the job on the shared volume"
    assert {pod["spec"]["nodeName"] for pod in with_data.pods()} == {"n1", "n2", "n3"}, "hostPorts keep pods apart"

    with_data.cluster.kubectl("delete", "job", JOB, "--cascade=foreground", timeout=120)
    with_data.create("2017-train.yaml")
    for said in ("holds an earlier run; rank 0 deletes it before training begins", "deleted from /home/jobpath"):
        with_data.cluster.wait(f"the second run: {said}", lambda said=said: said in with_data.logs(), 60)  # type: ignore[misc]


def test_a_script_of_a_user_around_paddle_pserver_and_paddle_train_works_in_the_image(with_data: Tutorial) -> None:
    directory = with_data.directory
    for name in ("start.sh", "start_paddle.py"):
        shutil.copy(HERE / name, directory / name)
    (directory / "start.sh").chmod(0o755)
    with_data.create("2017-train.yaml", **{"/root/start.sh": f"/home/jobpath/{JOB}/start.sh"})
    with_data.wait("Complete")
    passes = sorted(path.name for path in (directory / "output").glob("pass-*"))
    assert passes == ["pass-00000", "pass-00001", "pass-00002"]
    for rank in range(3):
        log = (directory / f"output/node_{rank}/train.log").read_text()
        assert "Pass=2" in log and "Test samples=" in log, log
        assert "tcp server start" in (directory / f"output/node_{rank}/server.log").read_text()
    token = directory / ".umiak" / "paddle-token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text().strip() not in with_data.logs()


def test_the_tutorial_of_2016_with_its_host_path(tutorial: Tutorial) -> None:
    tutorial.allow()
    root = HOST_PATH / JOB
    prepared("recommendation", root / "recommendation")
    (root / "recommendation/data").rename(root / "all")
    for name, count in (("train", 2400), ("test", 400)):
        ratings = root / f"all/ratings.{name}"
        ratings.write_text("".join(ratings.read_text().splitlines(True)[:count]))
    umiak("data", "split", root / "all", root, "--shards", "3", "--layout", "2016")
    shutil.rmtree(root / "all")
    tutorial.create("2016-train.yaml")
    tutorial.wait("Complete", seconds=420)
    assert (root / "output/pass-00009/_movie_fusion.w0").exists()
    assert (root / "output/node_2/train.log").exists()


def test_pods_that_may_not_list_pods_name_the_missing_role(tutorial: Tutorial) -> None:
    tutorial.create("2017-volume.yaml")
    tutorial.create("2017-train.yaml")
    tutorial.ends_with("a Role and a RoleBinding are missing", 2)


def test_a_lost_pod_ends_the_others_with_the_cause_and_the_command_that_recovers(with_data: Tutorial) -> None:
    cluster = with_data.cluster
    slow = with_data.directory / "slow"
    shutil.copytree(with_data.directory / "quick_start", slow)
    provider = slow / "dataprovider_bow.py"
    provider.write_text("import time\n" + re.sub(r"( +)(yield )", r"\1time.sleep(0.05)\n\1\2", provider.read_text()))
    with_data.create("2017-train.yaml", quick_start="slow")
    log = with_data.directory / "output/node_0/train.log"
    cluster.wait("training", lambda: log.exists() and "loading dataprovider" in log.read_text(), 120)
    victim = with_data.pods()[0]["metadata"]["name"]
    cluster.kubectl("delete", "pod", victim, "--grace-period=0", "--force")
    advice = "umiak job submit makes a job that recovers"
    cluster.wait("both survivors to end", lambda: sum(advice in end["cause"] for end in with_data.endings()) >= 2, 120)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda root: shutil.rmtree(root / "1"), "shard 1 is not there"),
        (lambda root: (root / "1/data/train.txt").write_text("0\tother\n"), "bytes where the manifest says"),
        (lambda root: shutil.rmtree(root / "quick_start"), "TRAIN_CONFIG_DIR=quick_start: there is no directory"),
    ],
    ids=["missing", "damaged", "no config"],
)
def test_a_shard_or_config_that_is_not_as_it_should_be_fails_the_job(
    with_data: Tutorial, damage: Any, told: str
) -> None:
    damage(with_data.directory)
    with_data.create("2017-train.yaml")
    with_data.ends_with(told, 2)


def test_a_split_count_other_than_the_number_of_pods_is_refused(tutorial: Tutorial) -> None:
    tutorial.create("2017-volume.yaml")
    tutorial.allow()
    tutorial.create("2017-data.yaml", **{'"3"': '"4"'})
    tutorial.wait("Complete", "paddle-data", 120)
    tutorial.create("2017-train.yaml")
    tutorial.ends_with("split into 4 shards, but there are 3 trainers", 2)


def test_fewer_pods_than_trainers_say_who_is_missing_and_end(with_data: Tutorial) -> None:
    """Parallelism 2 where three are expected."""
    shorter = {"        - name: TRAINER_COUNT": WAIT_20_SECONDS + "        - name: TRAINER_COUNT"}
    with_data.create("2017-train.yaml", **{"parallelism: 3": "parallelism: 2"}, **shorter)
    with_data.cluster.wait("a pod that waits", lambda: "2 of 3 pods are running" in with_data.logs(), 90)
    with_data.ends_with("gave up after 20 s: 2 of 3 pods are running (no other pod exists)", 75)


def test_pods_in_another_namespace_than_the_yaml_says_are_told_so(tutorial: Tutorial, namespace: Namespace) -> None:
    namespace.kubectl("create", "-f", "-", text=(HERE / "2017-train.yaml").read_text())
    wanted = f"JOB_NAMESPACE is 'default', but this pod and its peers are in namespace '{namespace.name}'"
    namespace.cluster.wait(
        "a pod that says so", lambda: any(wanted in namespace.cluster.log(pod) for pod in namespace.pods()), 90
    )


@pytest.fixture
def small(small_volume: Path, tutorial: Tutorial) -> Path:
    """The tutorial's volume is a small one, on which hardly anything is free."""
    tutorial.create("2017-volume.yaml", **{'path: "/"': 'path: "/small"'})
    tutorial.allow()
    with (small_volume / "other").open("wb") as file:
        file.write(bytes(shutil.disk_usage(small_volume).free - (64 << 10)))
    return small_volume


def test_data_that_do_not_fit_the_volume_fail_the_data_job(tutorial: Tutorial, small: Path) -> None:
    tutorial.create("2017-data.yaml")
    told = lambda: "no space left on the disk" in tutorial.logs("paddle-data")  # noqa: E731
    tutorial.cluster.wait("a pod that says the volume is full", told, 90)


def test_a_volume_that_fills_up_ends_the_job_with_the_cause(tutorial: Tutorial, small: Path) -> None:
    (small / "other").unlink()
    tutorial.create("2017-data.yaml")
    tutorial.wait("Complete", "paddle-data", 120)
    with (small / "other").open("wb") as file:
        file.write(bytes(shutil.disk_usage(small).free - (100 << 10)))
    tutorial.create("2017-train.yaml")
    tutorial.ends_with("no space left on the disk", 2)
