"""Data onto the volume and results off it, through the cluster, as a user does it."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.kube.images import RUNTIME
from tests.kube.jobs import TrainingJob
from tests.kube.namespace import Namespace
from tests.processes import kill_tree, snapshot_bytes, start, umiak
from umiak.data import shards
from umiak.jobs import output, volume_pod
from umiak.kube import kubeconfig
from umiak.kube.api import Api

SAMPLES = 30_000
TEXT = "".join(f"sample {number}\n" for number in range(SAMPLES))


def where(namespace: Namespace) -> list[str]:
    return [f"--kubeconfig={namespace.cluster.kubeconfig}", "-n", namespace.name]


def submit(namespace: Namespace, source: str, *words: str, code: int = 0) -> str:
    return umiak(
        "data", "submit", source, "cut", f"--image={RUNTIME}", *words, *where(namespace), code=code, timeout=180
    )


def write(volume: Path, name: str, text: str = TEXT) -> None:
    path = volume / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)
    path.parent.chmod(0o755)


def test_a_directory_on_the_volume_is_cut_there_and_nothing_is_left_in_the_cluster(namespace: Namespace) -> None:
    write(namespace.volume, "raw/train.txt")
    write(namespace.volume, "raw/dict.txt", "unk\n")
    write(namespace.volume, "raw/train.list", "data/train.txt\n")
    said = submit(namespace, "raw", "--shards=3")
    assert "all 30,000 samples are in 3 shards" in said
    assert shards.verify(namespace.volume / "cut").samples == SAMPLES
    namespace.wait("nothing left", lambda: not namespace.left(), 60)


@pytest.fixture
def web(namespace: Namespace, tmp_path: Path) -> Iterator[str]:
    """A web server on the cluster's own network."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web/train.txt").write_text(TEXT)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *words: object) -> None:
            super().__init__(*words, directory=str(tmp_path / "web"))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer((namespace.cluster.place.gateway, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://{namespace.cluster.place.gateway}:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_file_behind_a_url_and_its_errors(namespace: Namespace, web: str) -> None:
    error = submit(namespace, f"{web}/missing.txt", "--shards=3", code=2)
    assert "answers 404" in error and error.count("\n") <= 2
    submit(namespace, f"{web}/train.txt", "--shards=3")
    assert shards.verify(namespace.volume / "cut").samples == SAMPLES
    error = submit(namespace, f"{web}/train.txt", "--shards=4", code=2)
    assert "holds shards of other data" in error


def test_an_object_in_s3_and_its_errors(namespace: Namespace) -> None:
    """The pod's boto3 against moto on the cluster's own network."""
    server = ThreadedMotoServer(namespace.cluster.place.gateway, 0, verbose=False)
    server.start()
    try:
        place = f"http://{namespace.cluster.place.gateway}:{server.get_host_and_port()[1]}"
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
        known = [f"--env={name}={value}" for name, value in keys.items()]
        client = boto3.client(
            "s3", endpoint_url=place, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
        )
        client.create_bucket(Bucket="clicks")
        client.put_object(Bucket="clicks", Key="2016/train.txt", Body=TEXT.encode())
        at_moto = f"--env=AWS_ENDPOINT_URL={place}"
        error = submit(namespace, "s3://clicks/2017", "--shards=3", at_moto, *known, code=2)
        assert "there is no such object" in error and error.count("\n") <= 2
        submit(namespace, "s3://clicks/2016", "--shards=3", at_moto, *known)
        assert shards.verify(namespace.volume / "cut").samples == SAMPLES
    finally:
        server.stop()


def test_a_pod_that_is_lost_is_replaced_and_its_successor_resumes(namespace: Namespace) -> None:
    write(namespace.volume, "raw/train.txt", "".join(f"{number:0999}\n" for number in range(300_000)))
    process = start("data", "submit", "raw", "cut", f"--image={RUNTIME}", "--shards=3", *where(namespace))
    try:
        begun = namespace.volume / "cut" / ".split.json"
        namespace.wait("the split to begin", begun.exists, 90)
        pod = namespace.pods()[0]["metadata"]["name"]
        namespace.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, f"{out}\n{err}"
    finally:
        kill_tree(process.pid)
    assert shards.verify(namespace.volume / "cut").samples == 300_000


def test_a_claim_or_an_image_that_is_not_there_is_named(namespace: Namespace) -> None:
    write(namespace.volume, "raw/train.txt")
    assert "there is no claim 'nothing'" in submit(namespace, "raw", "--shards=3", "--claim=nothing", code=2)
    namespace.wait("nothing left", lambda: not namespace.left(), 30)


def test_output_is_listed_and_pulled_and_the_volume_pod_is_gone(namespace: Namespace, tmp_path: Path) -> None:
    job = TrainingJob.write(namespace, tmp_path)
    job.submit()
    job.wait()
    listed = umiak("output", "ls", job.name, *where(namespace))
    assert "pass-00002/" in listed and "node_1/" in listed
    umiak("output", "pull", job.name, tmp_path / "here", *where(namespace))
    assert snapshot_bytes(tmp_path / "here") == snapshot_bytes(job.output)
    assert (tmp_path / "here/curves.png").exists()
    error = umiak("output", "pull", job.name, "9", tmp_path / "other", *where(namespace), code=2)
    assert "no pass-00009" in error
    job.delete()
    error = umiak("output", "ls", job.name, *where(namespace), code=2)
    assert "add --file job.yaml" in error
    umiak("output", "pull", job.name, "1", tmp_path / "one", f"--file={job.directory / 'job.yaml'}", *where(namespace))
    assert sorted(path.name for path in (tmp_path / "one").glob("pass-*")) == ["pass-00001"]
    namespace.wait("nothing left", lambda: not namespace.left(), 60)


def test_a_pull_that_is_killed_leaves_no_pod_and_can_be_resumed(namespace: Namespace, tmp_path: Path) -> None:
    """400 MB, so that there is time to kill it."""
    job = _with_output(namespace, tmp_path, 400)
    file = f"--file={job.directory / 'job.yaml'}"
    pull: list[str | Path] = ["output", "pull", job.name, tmp_path / "here", file, *where(namespace)]
    process = start(*pull)
    namespace.wait("some of it is here", lambda: any((tmp_path / "here").rglob("*.part")), 60)
    time.sleep(0.5)
    kill_tree(process.pid)
    process.wait()
    umiak(*pull, timeout=120)
    here, there = tmp_path / "here/pass-00000/w", job.output / "pass-00000/w"
    assert subprocess.run(["cmp", here, there], check=False).returncode == 0
    namespace.wait("the pod of the killed one to end by itself", lambda: not namespace.left(), 90)


def test_pulling_is_about_as_fast_as_kubectl_cp(namespace: Namespace, tmp_path: Path) -> None:
    """Both through a pod that is there already, in turn; the fastest of each, because other tests share the machine.

    One that others slow down tells nothing, so there are up to eight turns until the fastest are alike.
    """
    job = _with_output(namespace, tmp_path, 200)
    reader = _reader(namespace)
    ours, theirs = [], []
    access = kubeconfig.load(namespace.cluster.kubeconfig, None, {})
    with Api(access) as api, volume_pod.started(api, namespace.name, "efsvol", RUNTIME) as pod:
        for number in range(8):
            began = time.monotonic()
            namespace.kubectl("cp", f"{reader}:/volume/{job.name}/output", str(tmp_path / f"kubectl-{number}"))
            theirs.append(time.monotonic() - began)
            began = time.monotonic()
            files = output.listing(pod, f"{job.name}/output")
            output.pull(pod, f"{job.name}/output", files, tmp_path / f"here-{number}", lambda done, total: None)
            ours.append(time.monotonic() - began)
            for path in tmp_path.glob(f"*-{number}"):
                shutil.rmtree(path)
            if number and min(theirs) / min(ours) > 0.8:
                break
    assert min(theirs) / min(ours) > 0.8, f"kubectl cp took {theirs}, umiak output pull {ours}"


def _reader(namespace: Namespace) -> str:
    """A pod that mounts the volume and does nothing."""
    spec = namespace.job("reader", ["sleep", "300"], RUNTIME)
    pod = spec["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "volume", "mountPath": "/volume"}]
    pod["volumes"] = [{"name": "volume", "persistentVolumeClaim": {"claimName": "efsvol"}}]
    namespace.apply(spec)
    namespace.wait("the reader", lambda: list(namespace.phases("job=reader").values()) == ["Running"], 60)
    return str(namespace.pods("job=reader")[0]["metadata"]["name"])


def _with_output(namespace: Namespace, tmp_path: Path, megabytes: int) -> TrainingJob:
    """A job that is gone from the cluster, and the output it could have left."""
    job = TrainingJob.write(namespace, tmp_path)
    snapshot = job.output / "pass-00000"
    snapshot.mkdir(parents=True)
    with Path("/dev/urandom").open("rb") as source, (snapshot / "w").open("wb") as file:
        block = source.read(1 << 20)
        for _ in range(megabytes):
            file.write(block)
    (snapshot / "done").touch()
    return job
