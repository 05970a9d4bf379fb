"""`umiak train … --page`: a page beside the training, in real processes. The page itself is a stand-in of one line."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import umiak
from tests.processes import TINY, alive, descendants, hear_interrupts, kill_tree, wait_for, wait_until_gone
from umiak.cli.main import main
from umiak.errors import InputError
from umiak.page import beside
from umiak.spec.flags import parse

PROGRAM = """
import sys
from pathlib import Path
from umiak.page import __main__ as page, built
built.STATIC = Path({static!r})
{more}
sys.exit(page.main(Path(sys.argv[-1])))
"""
TRAIN = """
import sys
from umiak.page import beside
beside.WORDS = {words!r}
from umiak.cli.main import main
from umiak.errors import InputError
sys.exit(main({arguments!r}))
"""
Words = Callable[..., list[str]]
Train = Callable[..., "Training"]


@pytest.fixture
def words(tmp_path: Path) -> Words:
    """How the page's process is started, with a stand-in for the built page."""
    static = tmp_path / "static"
    static.mkdir()

    def made(built: bool = True, more: str = "") -> list[str]:
        if built:
            (static / "index.html").write_text("<!doctype html>the page")
        return [sys.executable, "-c", PROGRAM.format(static=str(static), more=more)]

    return made


class Training:
    """`umiak train` in a process of its own."""

    def __init__(self, words: list[str], *arguments: str | Path, pause: float = 0.0) -> None:
        program = TRAIN.format(words=words, arguments=["train", str(TINY), *map(str, arguments)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=hear_interrupts, env={**os.environ, "UMIAK_TEST_PAUSE": str(pause)},
        )  # fmt: skip
        self.said: list[str] = []

    def until(self, beginning: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if line.strip().startswith(beginning):
                return line.strip()
        raise AssertionError(f"no line begins with {beginning!r}: {self.said} {self.process.communicate()}")

    def end(self) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            kill_tree(self.process.pid)
            raise
        return self.process.returncode, "".join(self.said) + out, err


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Train]:
    made: list[Training] = []

    def start(words: list[str], *arguments: str, pause: float = 0.0) -> Training:
        made.append(Training(words, "--out", tmp_path / "out", *arguments, pause=pause))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            kill_tree(each.process.pid)
            each.process.communicate()


def ask(address: str, path: str, cookie: str = "") -> tuple[int, str, str]:
    host = address.removeprefix("page: ").removeprefix("http://").partition("/")[0]
    connection = http.client.HTTPConnection(host, timeout=20)
    connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body, (answer.getheader("set-cookie") or "").partition(";")[0]


def enter(address: str) -> tuple[str, str]:
    """What the address shows first, and the cookie."""
    path, _, place = ("/" + address.partition("://")[2].partition("/")[2]).partition("#")
    status, _, cookie = ask(address, path)
    assert status == 303
    return place, cookie


@pytest.mark.parametrize("kind", [["--local"], ["--workers", "2"]], ids=["local", "workers"])
def test_the_page_of_a_run_is_there_from_its_start_and_ends_with_it(
    tmp_path: Path, train: Train, words: Words, kind: list[str]
) -> None:
    training = train(words(), "--passes", "1", "--page", *kind, pause=0.05)
    address = training.until("page: ")
    page = [
        pid for pid in descendants(training.process.pid) if "umiak.page" in Path(f"/proc/{pid}/cmdline").read_text()
    ]
    place, cookie = enter(address)
    name = place.removeprefix("/run/")
    status, body, _ = ask(address, f"/api/runs/{name}", cookie)
    assert status == 200 and f'"id":"{name}"' in body
    code, _, err = training.end()
    assert code == 0, err
    assert "token=" not in (tmp_path / "out" / "events.jsonl").read_text()
    wait_until_gone(page)


@pytest.mark.parametrize(
    ("more", "built", "said"),
    [
        ("import builtins; builtins.__import__ = None", True, "its process ended at once"),
        ("sys.modules['uvicorn'] = None", True, "--page needs uvicorn: pip install 'umiak[page]'"),
        ("", False, "the page is not built: run `make web`"),
    ],
    ids=["a page that breaks", "without the extra", "not built"],
)
def test_training_continues_without_a_page_and_says_why(
    tmp_path: Path, train: Train, words: Words, more: str, built: bool, said: str
) -> None:
    if "uvicorn" in more:
        more = "for each in ('umiak.page.server', 'umiak.page.serving'): sys.modules.pop(each, None)\n" + more
    training = train(words(built, more), "--passes", "1", "--page", "--local")
    code, out, err = training.end()
    assert code == 0, err
    assert f"no page: {said}" in out and "training continues" in out


def test_a_training_that_fails_keeps_its_exit_code_and_its_message(tmp_path: Path, train: Train, words: Words) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "metrics.jsonl").write_text("{}\n")
    code, _, err = train(words(), "--local", "--page").end()
    assert code == 2 and len([line for line in err.splitlines() if line]) == 1


def test_ctrl_c_stops_the_training_and_then_the_page(tmp_path: Path, train: Train, words: Words) -> None:
    training = train(words(), "--local", "--page", "--passes", "500", pause=0.05)
    address = training.until("page: ")
    wait_for((tmp_path / "out" / "events.jsonl").exists, training.process)
    everybody = descendants(training.process.pid)
    os.killpg(training.process.pid, signal.SIGINT)
    code, _, err = training.end()
    assert code == 75 and "continue with --resume" in err
    wait_until_gone(everybody)
    with pytest.raises(OSError):
        ask(address, "/")


def test_a_training_that_is_killed_takes_its_page_with_it(tmp_path: Path, train: Train, words: Words) -> None:
    training = train(words(), "--local", "--page", "--passes", "500", pause=0.05)
    training.until("page: ")
    page = descendants(training.process.pid)
    assert page
    training.process.kill()
    training.end()
    wait_until_gone(page)


def test_a_page_that_is_kept_stays_until_ctrl_c_and_the_exit_code_is_the_trainings(
    tmp_path: Path, train: Train, words: Words
) -> None:
    training = train(words(), "--local", "--keep-page", "--passes", "1")
    address = training.until("page: ")
    training.until("Training has ended. The page stays at http://127.0.0.1:")
    page = descendants(training.process.pid)
    _, cookie = enter(address)
    status, body, _ = ask(address, "/api/runs", cookie)
    assert status == 200 and '"state":"done"' in body, body
    assert all(alive(pid) for pid in page)
    os.killpg(training.process.pid, signal.SIGINT)
    assert training.end()[0] == 0
    wait_until_gone(page)


def test_only_train_takes_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse("train", ["c.py", "--keep-page"]).keep_page
    assert main(["trainer", "c.py", "--page"]) == 2
    assert "--page is a flag of umiak train, not of umiak trainer" in capsys.readouterr().err


@pytest.mark.slow
def test_a_process_that_cannot_start_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "WORDS", [str(tmp_path / "nothing")])
    said: list[str] = []
    with beside.shown(tmp_path) as announce:
        announce(said.append)
    assert said == ["no page: cannot start its process (No such file or directory); training continues"]


@pytest.mark.slow
def test_from_python_a_page_comes_with_the_training_too(
    tmp_path: Path, words: Words, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beside, "WORDS", words())
    umiak.train(TINY, local=True, passes=1, out=tmp_path / "out", quiet=True, page=True)
    assert capsys.readouterr().out.startswith("page: http://127.0.0.1:")
    with pytest.raises(InputError, match="keep_page is for the command line"):
        umiak.train(TINY, local=True, passes=1, out=tmp_path / "out2", keep_page=True)
    assert not (tmp_path / "out2").exists()
