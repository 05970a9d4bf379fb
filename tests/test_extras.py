"""What a user reads where an optional dependency is missing: each case is a real process that cannot import it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.processes import TINY
from umiak import extras

ROOT = Path(__file__).parents[1]
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NOT_FOR_USERS = {"all", "dev", "docs", "web"}


def without(module: str, *words: str, cwd: Path, code: int = 2) -> str:
    """Run umiak where `import module` fails; the errors, or the output where it should succeed."""
    program = (
        f"import sys; sys.modules[{module!r}] = None; from umiak.cli.main import main; sys.exit(main({[*words]!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def one_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


def test_every_extra_for_users_is_in_all_and_names_its_modules() -> None:
    (everything,) = GROUPS["all"]
    named = set(everything.removeprefix("umiak[").removesuffix("]").split(","))
    assert named == set(GROUPS) - NOT_FOR_USERS == set(extras.EXTRAS)
    for extra, modules in extras.EXTRAS.items():
        packages = {requirement.partition(">")[0].lower() for requirement in GROUPS[extra]}
        assert {package.lower() for package in modules.values()} == packages
        assert extras.missing(extra) == []


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    import pyarrow
    from pyarrow.parquet import write_table

    write_table(pyarrow.table({"user": [1, 2, 3]}), tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


def test_parquet(parquet: Path) -> None:
    told = without("pyarrow", "data", "split", "data.parquet", "out", "--shards", "2", cwd=parquet.parent)
    assert one_line(told) == "umiak: Parquet files need pyarrow: pip install 'umiak[parquet]'"
    assert not (parquet.parent / "out" / "manifest.json").exists()


def test_reading_parquet_from_python(parquet: Path) -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import umiak
try:
    next(iter(umiak.data.read("data.parquet").batches(1, umiak.Shard(0, 1), None)))
except umiak.InputError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=parquet.parent, capture_output=True, text=True, check=False
    )
    assert done.stdout == "Parquet files need pyarrow: pip install 'umiak[parquet]'\n", done.stderr


def test_s3(tmp_path: Path) -> None:
    told = without("boto3", "data", "split", "s3://bucket/key", "out", "--shards", "2", cwd=tmp_path)
    assert one_line(told) == "umiak: s3:// needs boto3: pip install 'umiak[s3]'"


def test_certificates(tmp_path: Path) -> None:
    assert one_line(without("cryptography", "certs", "tls", cwd=tmp_path)) == (
        "umiak: certificates need cryptography: pip install 'umiak[tls]'"
    )
    assert not (tmp_path / "tls").exists()


def test_a_v1_config(tmp_path: Path) -> None:
    config = ROOT / "examples" / "paddle_v1" / "quick_start" / "trainer_config.lr.py"
    told = without("fissix", "show", str(config), cwd=tmp_path)
    assert "v1 configs and data providers need fissix: pip install 'umiak[paddle]'" in one_line(told)


def test_the_picture_of_a_model(tmp_path: Path) -> None:
    told = without("matplotlib", "show", str(TINY), cwd=tmp_path)
    assert one_line(told) == "umiak: the picture of a model needs matplotlib: pip install 'umiak[plot]'"


@pytest.mark.parametrize(
    ("module", "package", "words", "extra"),
    [
        ("urllib3", "urllib3", ["job", "status", "x"], "kube"),
        ("yaml", "PyYAML", ["output", "ls", "x"], "kube"),
        ("troposphere", "troposphere", ["cluster", "render"], "cluster"),
        ("urllib3", "urllib3", ["image", "push", "localhost/x:1"], "image"),
    ],
)
def test_a_verb_that_needs_one(tmp_path: Path, module: str, package: str, words: list[str], extra: str) -> None:
    if extra == "cluster":
        without("troposphere", "cluster", "init", "--name", "a", "--region", "us-west-2", cwd=tmp_path, code=0)
    told = one_line(without(module, *words, cwd=tmp_path))
    assert told.startswith("umiak: ") and told.endswith(f"{package}: pip install 'umiak[{extra}]'")
