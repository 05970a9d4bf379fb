"""Images of jobs: a project's own packages as a thin layer, and an image that nobody has pushed yet."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.oci_registry import Registry
from tests.recorded_kube import RecordedKube, recorded
from tests.test_image_push import MINOR, index, push, there, wheel
from umiak.cli import image as verb
from umiak.cli.main import main
from umiak.image import packages
from umiak.pod import staging

pytestmark = pytest.mark.slow

__all__ = ["index", "there"]


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedKube]:
    with recorded() as kube:
        kube.namespace()
        meta = {"name": "efsvol", "namespace": "default"}
        kube.put({"kind": "PersistentVolumeClaim", "metadata": meta, "spec": {"accessModes": ["ReadWriteMany"]}})
        monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig(tmp_path / "kubeconfig")))
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "config.py").write_text("config = 1\n")
        yield kube


def project(tmp_path: Path, there: Registry, **more: str) -> None:
    """A job that needs `own`, which needs nothing, and `anywhere`, which the runtime has."""
    place = tmp_path / "index"
    wheel(place, "own", "py3-none-any", {"own/__init__.py": "OWN = 1\n"})
    (place / "own" / "index.html").write_text('<a href="own-1.0-py3-none-any.whl">own-1.0-py3-none-any.whl</a>')
    (tmp_path / "requirements.txt").write_text("own\nanywhere\n")
    job = {
        "name": "rec",
        "image": f"{there.host}/team/runtime:1",
        "config": "config",
        "requirements": "requirements.txt",
    }
    job |= more
    (tmp_path / "job.yaml").write_text(yaml.dump(job))


def test_a_job_s_own_packages_are_a_thin_layer_on_its_image(
    index: str, there: Registry, kube: RecordedKube, tmp_path: Path
) -> None:
    push(there)
    before = json.loads(there.state.manifests["team/runtime", "1"][1])
    project(tmp_path, there)
    there.state.arrived = 0
    assert main(["job", "submit"]) == 0
    image = kube.of("Job")[0]["spec"]["template"]["spec"]["containers"][0]["image"]
    name, _, digest = image.partition("@")
    assert name == f"{there.host}/team/runtime"
    after = json.loads(there.state.manifests["team/runtime", digest][1])
    assert after["layers"][:-1] == before["layers"] and 0 < there.state.arrived < 10_000
    with tarfile.open(fileobj=io.BytesIO(there.state.blobs["team/runtime", after["layers"][-1]["digest"]])) as tar:
        names = tar.getnames()
    site = f"opt/umiak/lib/python3.{MINOR}/site-packages"
    assert f"{site}/own/__init__.py" in names and not [each for each in names if "anywhere" in each]


def test_the_resolved_lock_travels_with_the_job_and_ends_up_in_its_output(
    index: str, there: Registry, kube: RecordedKube, tmp_path: Path
) -> None:
    push(there)
    project(tmp_path, there)
    assert main(["job", "submit"]) == 0
    (config,) = kube.of("ConfigMap")
    archive = tmp_path / "config.tar.gz"
    archive.write_bytes(base64.b64decode(config["binaryData"]["config.tar.gz"]))
    out = tmp_path / "out"
    out.mkdir()
    staging.keep_lock(archive, out)
    lock = (out / "requirements.lock").read_text()
    assert "own==1.0" in lock and "anywhere==1.0" in lock and "--hash=sha256:" in lock


def test_a_job_without_requirements_keeps_no_lock(tmp_path: Path) -> None:
    archive = tmp_path / "config.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(Path(__file__), "config.py")
    staging.keep_lock(archive, tmp_path)
    assert not (tmp_path / "requirements.lock").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"requirements": "none.txt"}, "there is no file"),
        ({"image": "HOST/team/other:1"}, "push it with `umiak image push`"),
        ({"image": "HOST/base"}, "is for several platforms"),
        ({"requirements": "../outside.txt"}, "must be a path inside"),
    ],
)
def test_requirements_that_cannot_be_added_are_one_line_and_nothing_is_submitted(
    index: str,
    there: Registry,
    kube: RecordedKube,
    tmp_path: Path,
    change: dict[str, str],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    push(there)
    project(tmp_path, there, **{name: text.replace("HOST", there.host) for name, text in change.items()})
    assert main(["job", "submit"]) == 2
    assert told in capsys.readouterr().err and kube.of("Job") == []


def test_an_image_of_another_version_takes_no_requirements(
    index: str, there: Registry, kube: RecordedKube, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    push(there)
    Path(packages.LOCK).write_text(Path(packages.LOCK).read_text() + "# newer\n")
    project(tmp_path, there)
    assert main(["job", "submit"]) == 2
    assert "not made by `umiak image push` of this version" in capsys.readouterr().err


def test_a_package_that_does_not_exist_is_named(
    index: str, there: Registry, kube: RecordedKube, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    push(there)
    project(tmp_path, there)
    (tmp_path / "requirements.txt").write_text("no-such-package\n")
    assert main(["job", "submit"]) == 2
    assert "no-such-package" in capsys.readouterr().err


def test_a_dry_run_pushes_nothing(
    index: str, there: Registry, kube: RecordedKube, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, there)
    assert main(["job", "submit", "--dry-run"]) == 0
    assert "a dry run adds no packages" in capsys.readouterr().err and not there.state.arrived


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "is_pushed"), [("y\n", True), ("n\n", False), (None, False)])
def test_the_image_of_a_new_cluster_is_offered_when_it_is_missing(
    index: str,
    there: Registry,
    kube: RecordedKube,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str | None,
    is_pushed: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    image = f"{there.host}/team/runtime:1"
    content = json.loads((tmp_path / "kubeconfig").read_text())
    content["contexts"][0]["context"]["extensions"] = [{"name": "umiak.dev/cluster", "extension": {"image": image}}]
    (tmp_path / "kubeconfig").write_text(json.dumps(content))
    (tmp_path / "job.yaml").write_text(yaml.dump({"name": "rec", "image": image, "config": "config"}))
    if answer is not None:
        monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("umiak.image.making.default_base", lambda: f"{there.host}/base")
    monkeypatch.setattr("umiak.image.packages.CPU_INDEX", index)
    Path(packages.LOCK).write_text(f"{Path(packages.LOCK).read_text()}torch==1.0\n")
    wheel(tmp_path / "index", "torch", "py3-none-any", {"torch/__init__.py": ""})
    (tmp_path / "index/torch/index.html").write_text(
        '<a href="torch-1.0-py3-none-any.whl">torch-1.0-py3-none-any.whl</a>'
    )
    assert main(["job", "submit"]) == (0 if is_pushed else 2)
    assert (("team/runtime", "1") in there.state.manifests) is is_pushed
    assert bool(kube.of("Job")) is is_pushed
    if not is_pushed:
        assert "push it with `umiak image push`" in capsys.readouterr().err
    assert verb.offer({}) is True
