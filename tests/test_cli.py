"""`umiak VERB …` as a user meets it: help, errors in one line, exit codes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from umiak import __version__
from umiak.cli import main as cli
from umiak.errors import InputError, RetryError, UmiakError


def umiak(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "umiak.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_verb(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {verb} " in text for verb in cli.VERBS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"umiak {__version__}\n"


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_is_a_module_that_answers_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = importlib.import_module(f"umiak.cli.{verb}").run(["--help"])
    except SystemExit as end:
        code = end.code
    assert code in (0, None)
    assert capsys.readouterr().out.startswith(f"usage: umiak {verb}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "umiak: unknown verb 'trian', did you mean train?; umiak --help lists all\n"),
        (["train"], "umiak: umiak train needs a CONFIG; see umiak train --help\n"),
        (["train", "a.py", "--worker=3"], "umiak: unknown flag --worker, did you mean --workers?"),
        (["predict", "out/pass-00000"], "umiak: umiak predict needs --output FILE"),
        (["export", "--output=x"], "umiak: umiak export needs a SNAPSHOT"),
        (["certs"], "umiak: umiak certs needs a DIR"),
        (["data", "fetsh"], "umiak: umiak data: argument VERB: invalid choice: 'fetsh' (choose from 'fetch'"),
        (["data", "fetch"], "umiak: umiak data fetch: the following arguments are required: NAME"),
    ],
)
def test_bad_words_are_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A verb whose end the test chooses: the real ones would need a whole job to fail in these ways."""
    module = ModuleType("umiak.cli.failing")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.VERBS, "failing", "")
    return module


@pytest.mark.parametrize(
    ("error", "code"), [(InputError("x"), 2), (RetryError("x"), 75), (UmiakError("x"), 1), (KeyboardInterrupt(), 130)]
)
def test_exit_codes_say_what_happened(
    failing: ModuleType, error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(argv: list[str]) -> int:
        raise error

    failing.run = run  # type: ignore[attr-defined]
    assert cli.main(["failing"]) == code
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("words", ["--help", "train --help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_no_error(words: str, unbuffered: str) -> None:
    command = f"{sys.executable} -m umiak.cli.main {words} | true"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""


def test_flags_without_effect_are_told_on_stderr(tmp_path: Path) -> None:
    done = umiak("train", "--rdma_tcp=rdma", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "umiak: warning: --rdma_tcp has no effect: connections are sockets; see --transport",
        "umiak: umiak train needs a CONFIG; see umiak train --help",
    ]
    assert list(tmp_path.iterdir()) == []


def test_certs_are_written_and_not_overwritten(tmp_path: Path) -> None:
    done = umiak("certs", "tls", "--workers", "2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "tls/worker-0\ntls/worker-1\n")
    again = umiak("certs", "tls", "--workers", "2", cwd=tmp_path)
    assert again.returncode == 2
    assert again.stderr == (
        "umiak: tls already holds certificates: choose another directory or replace with --overwrite\n"
    )
