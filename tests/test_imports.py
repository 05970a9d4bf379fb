"""Who may import whom, and what must never be loaded where: a package that reaches too far makes every start slow."""

from __future__ import annotations

import ast
import re
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UMIAK = ROOT / "umiak"

# These are of no package and may be used by all.
COMMON = {
    "address",
    "errors",
    "extras",
    "files",
    "logs",
    "paths",
    "system",
    "trusted",
}
# By package, or by a part of one that may import more than the rest of it. A package that is named does not stand for its parts.
# Words that packages have in common, and nothing that acts: may be used by all, too.
WORDS = {"messages", "contract"}
MAY_IMPORT: dict[str, set[str]] = {
    "messages": set(),
    "contract": set(),
    "spec": set(),
    "wire": set(),
    "rundir": {"spec"},
    "data": {"spec", "wire"},
    "nn": {"spec", "wire"},
    "pserver": {"spec", "wire", "rundir"},
    "trainer": {"spec", "wire", "rundir", "data", "nn", "pserver"},
    "evaluation": {"spec", "wire", "rundir", "data", "nn", "pserver", "trainer"},
    "worker": {"spec", "wire", "rundir", "data", "nn", "pserver", "trainer", "evaluation"},
    "display": {"spec"},
    "show": {"spec", "wire", "nn", "pserver", "launch"},
    "sinks": {"spec", "rundir"},
    "launch": {"spec", "wire", "rundir", "data", "nn", "pserver", "trainer", "evaluation", "worker", "sinks"},
    "paddle_v1": {"spec", "show", "data", "nn", "paddle_v1.rules"},
    "paddle_v1.rules": {"spec", "pserver", "paddle_v1"},
    "paddle_v1.registration": {"spec", "pserver", "paddle_v1", "paddle_v1.rules"},
    "paddle_v1.warm": {"spec", "nn", "pserver", "paddle_v1", "paddle_v1.rules"},
    "paddle_v1.command": {"spec", "wire", "rundir", "trainer", "evaluation", "worker", "paddle_v1", "paddle_v1.rules"},
    "paddle_v1.pods": {"spec", "wire", "rundir", "data", "trainer", "worker", "pod"},
    "page": {"spec", "rundir", "show"},
    "kube": {"spec"},
    "jobs": {"spec", "wire", "kube"},
    "cluster": {"spec", "kube"},
    "doctor": {"wire", "kube", "cluster"},
    "image": {"spec", "pserver", "paddle_v1.warm", "worker"},
    "pod": {"spec", "wire", "rundir", "data", "nn", "pserver", "trainer", "worker", "sinks"},
    "bench": {"spec", "wire", "rundir", "data", "nn", "pserver", "trainer", "worker", "launch", "paddle_v1"},
    "cli": {
        "spec",
        "wire",
        "rundir",
        "data",
        "nn",
        "pserver",
        "trainer",
        "evaluation",
        "worker",
        "launch",
        "display",
        "show",
        "kube",
        "jobs",
        "pod",
        "paddle_v1",
        "paddle_v1.rules",
        "paddle_v1.command",
        "paddle_v1.pods",
        "cluster",
        "image",
        "bench",
        "doctor",
        "page",
    },
}
# The processes that may meet a v1 job register PaddlePaddle v1; nobody else does.
REGISTER = {
    "cli/main.py",
    "launch/__main__.py",
    "worker/server.py",
    "bench/once.py",
    "paddle_v1/command/attempt.py",
    "paddle_v1/warm.py",
}
# Programs that start another package as a process of its own, which may even be on another machine.
START = {"cluster/access.py": {"cli"}, "contract/volume.py": {"pod"}}
TEXT = re.compile(r"^(umiak(?:\.\w+)+)\.?$|-m (umiak(?:\.\w+)+)")
MODULES = sorted(UMIAK.glob("*/**/*.py"))
HEAVY = ("torch", "boto3", "botocore", "troposphere", "matplotlib", "pyarrow", "tensorboardX", "mlflow", "wandb")


def imported(path: Path, top_level_only: bool = False) -> Iterator[str]:
    """The modules a file imports, by their dotted names; `from a import b` counts as a.b, a text that names a module as it."""
    tree = ast.parse(path.read_text())
    nodes = _top_level(tree.body) if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by dots; write the whole name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    if not top_level_only:
        yield from _named(tree)


def _named(tree: ast.Module) -> Iterator[str]:
    """Modules of ours that a text names: for importlib.import_module, or for `python -m`. Names of loggers are none."""
    loggers = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and "getLogger" in ast.unparse(node.func)
        for argument in node.args
    }
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in loggers | prose:
            yield from (found[1] or found[2] for found in TEXT.finditer(node.value))


def owner(name: str) -> str | None:
    """The package that a module of ours is of, or the part of one that MAY_IMPORT names; None of what is not ours."""
    parts = name.split(".")[1:] if name.startswith("umiak.") else []
    whole = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((each for each in whole if each in MAY_IMPORT or each in COMMON), None)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """What runs on import: not the bodies of functions, not what only a type checker sees."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        for part in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _top_level(getattr(node, part, []))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_imports_only_what_it_may(path: Path) -> None:
    package = owner(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert package in MAY_IMPORT, f"{path.parent.name} is new: say in MAY_IMPORT what it may import"
    reached = {found for name in imported(path) if (found := owner(name)) is not None}
    place = str(path.relative_to(UMIAK))
    more = START.get(place, set()) | ({"paddle_v1.registration"} if place in REGISTER else set())
    allowed = MAY_IMPORT[package] | {package} | WORDS | COMMON | more
    assert reached <= allowed, f"{package} must not import {sorted(reached - allowed)}"


@pytest.mark.parametrize("path", sorted((UMIAK / "cli").glob("*.py")), ids=lambda path: path.name)
def test_a_verb_loads_its_package_only_when_it_runs(path: Path) -> None:
    packages = {name.split(".")[1] for name in imported(path, top_level_only=True) if name.startswith("umiak.")}
    assert packages <= {"cli", "spec", "display", "__version__"} | WORDS | COMMON


def loaded(statement: str) -> set[str]:
    """The modules in memory after a statement, in a fresh interpreter."""
    program = f"import sys\n{statement}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_help_loads_nothing_heavy() -> None:
    modules = loaded("from umiak.cli.main import main; main(['--help'])")
    assert not modules & {*HEAVY, "numpy", "numba", "rich", "ssl", "cryptography"}


def test_import_umiak_loads_nothing_heavy() -> None:
    assert not loaded("import umiak") & {*HEAVY, "numpy", "numba", "rich"}


@pytest.mark.parametrize("package", ["spec", "messages", "wire", "rundir", "pserver", "data"])
def test_torch_is_never_loaded_by(package: str) -> None:
    """It costs seconds, and servers do without it."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (UMIAK / package).glob("*.py")]
    statement = "import " + ", ".join(name.removesuffix(".__init__") for name in names)
    assert not loaded(statement) & set(HEAVY)


def test_a_server_loads_neither_torch_nor_the_rules_of_v1_unless_a_job_needs_them() -> None:
    modules = loaded("import umiak.worker.server; from umiak.paddle_v1.registration import register; register()")
    assert "umiak.pserver.host" in modules and not modules & set(HEAVY)
    assert not {name for name in modules if name.startswith("umiak.paddle_v1.") and not name.endswith("registration")}


def test_the_rules_of_v1_load_no_torch() -> None:
    assert not loaded("import umiak.paddle_v1.rules.formulas") & set(HEAVY)


def test_a_module_that_a_text_names_counts_as_imported(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text(
        '''"""umiak.spec.load is only mentioned."""
import importlib, logging
logging.getLogger("umiak.worker")
importlib.import_module(f"umiak.cli.{verb}")
run(["python", "-m", "umiak.launch"], "exec python -m umiak.pod.files $@", "umiak.trainer.run is no module alone")
'''
    )
    assert {name for name in imported(file) if name.startswith("umiak")} == {
        "umiak.cli",
        "umiak.launch",
        "umiak.pod.files",
    }


def test_help_takes_less_than_three_tenths_of_a_second() -> None:
    """Of processor time: others may be busy meanwhile."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "umiak.cli.main", "--help"], capture_output=True, check=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert statistics.median(times) < 0.3
