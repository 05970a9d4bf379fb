"""The wheel without the source tree: it trains, plans a job and renders a cluster, and a type checker sees its types."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import installed
from tests.installed import Installed
from tests.processes import TINY
from umiak.extras import EXTRAS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed.wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Without any extra."""
    return installed.install(wheel, tmp_path_factory.mktemp("base") / "venv")


@pytest.fixture(scope="module")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed.install(wheel, tmp_path_factory.mktemp("all") / "venv", ("all",))


def test_a_wheel_has_the_types_and_the_lock_and_no_bench_peers(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"umiak/py.typed", "umiak/image/runtime.lock", "umiak/image/launcher.sh"} <= set(names)
    assert not [name for name in names if name.startswith(("umiak/bench/peers", "tests", "docs", "examples"))]


def test_nothing_leads_to_the_source_tree(base: Installed, tmp_path: Path) -> None:
    program = "import sys, umiak; print(umiak.__file__, *sys.path)"
    assert str(installed.ROOT) not in base.run("python", "-c", program, cwd=tmp_path).replace(str(installed.HERE), "")


def test_without_any_extra_it_trains_and_says_what_is_left_out(base: Installed, tmp_path: Path) -> None:
    absent = base.run(
        *("python", "-c", "from umiak import extras; print(*[e for e in extras.EXTRAS if extras.missing(e)])"),
        cwd=tmp_path,
    )
    assert absent.split() == list(EXTRAS)
    shutil.copy(TINY, tmp_path / "model.py")
    told = base.run("train", "model.py", "--workers", "2", "--passes", "1", "--out", "out", cwd=tmp_path)
    left_out = "no picture of the curves and no TensorBoard events: pip install 'umiak[plot,tensorboard]' adds them"
    assert told.count(left_out) == 1
    assert not (tmp_path / "out" / "curves.png").exists() and not (tmp_path / "out" / "tensorboard").exists()
    assert "cost" in base.run("test", "out/pass-00000", cwd=tmp_path)


def test_with_all_extras_it_plans_a_job_and_renders_a_cluster(whole: Installed, tmp_path: Path) -> None:
    shutil.copy(TINY, tmp_path / "config.py")
    whole.run("job", "init", "--name", "first", "--image", "registry.example/umiak:1", cwd=tmp_path)
    assert "kind: Job" in whole.run("job", "submit", "--dry-run", cwd=tmp_path)
    whole.run(
        "cluster", "init", "--name", "first", "--region", "us-west-2", "--api-access", "203.0.113.7/32", cwd=tmp_path
    )
    whole.run("cluster", "render", cwd=tmp_path)
    assert list((tmp_path / "rendered").glob("*.json"))


def test_a_type_checker_sees_the_types_of_the_installed_package(base: Installed, tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text("import umiak\n\nresult = umiak.train('config.py', workers='three')\n")
    # Reading the types of torch, too, would take most of a minute.
    only_ours = "[mypy]\nfollow_imports = skip\n[mypy-umiak,umiak.api]\nfollow_imports = silent\n"
    (tmp_path / "mypy.ini").write_text(only_ours)
    command = [sys.executable, "-m", "mypy", "--python-executable", str(base.python), "use.py"]
    done = subprocess.run(command, cwd=tmp_path, env=base.environment(), capture_output=True, text=True, check=False)
    assert 'Argument "workers" to "train" has incompatible type "str"; expected "int"' in done.stdout, done.stdout
    assert "py.typed" not in done.stdout
