"""Who reaches the API server: chosen at the start, told before anything is billed, and changed later with one command."""

from __future__ import annotations

import contextlib
import os
import pty
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster_life import Life, life
from tests.cluster_options import chosen, spec
from tests.fake_aws import FakeAws
from umiak import trusted
from umiak.cli.main import main
from umiak.cluster import checks, initial, reach
from umiak.cluster.checks import reach as reach_check
from umiak.errors import InputError
from umiak.spec import yamlfile
from umiak.spec.cluster import ClusterSpec

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]
INIT = ["cluster", "init", "--name", "paddle", "--region", "us-west-2"]


def written(directory: Path) -> ClusterSpec:
    return yamlfile.load(directory / "cluster.yaml", ClusterSpec)


@pytest.mark.parametrize(
    ("access", "cidrs", "bastion"),
    [
        ("mine", ("203.0.113.7/32",), False),
        ("private", (), True),
        ("198.51.100.0/24, 192.0.2.1/32", ("198.51.100.0/24", "192.0.2.1/32"), False),
    ],
)
@pytest.mark.parametrize("way", ["flag", "question"])
def test_choice_is_written_into_the_file(
    aws: FakeAws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    access: str,
    cidrs: tuple[str, ...],
    bastion: bool,
    way: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: way == "question", raising=False)
    monkeypatch.setattr("builtins.input", lambda question: access)
    assert main([*INIT, *(["--api-access", access] if way == "flag" else [])]) == 0
    made = written(tmp_path).kubernetes
    assert (made.api_cidrs, made.bastion) == (cidrs, bastion)
    if access == "mine":
        assert f"as {aws.endpoint}/checkip sees it" in capsys.readouterr().out


def test_enter_means_this_machine_and_the_question_names_the_service(
    aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    questions: list[str] = []
    monkeypatch.setattr("builtins.input", lambda question: questions.append(question) or "")
    assert main(INIT) == 0
    assert written(tmp_path).kubernetes.api_cidrs == ("203.0.113.7/32",)
    assert f"{aws.endpoint}/checkip" in questions[0]


def test_nobody_to_ask_is_told_how_to_choose_and_what_is_wrong_comes_first(
    aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(INIT) == 0
    assert "choose with --api-access mine, private or CIDR" in capsys.readouterr().out
    assert main([*INIT, "--overwrite", "--api-access", "office"]) == 2
    assert "--api-access: must be an IPv4 range" in capsys.readouterr().err
    assert main([*INIT, "--overwrite", "--api-access", "mine", "--api-cidr", "10.0.0.0/8"]) == 2
    assert "give only one of them" in capsys.readouterr().err


@pytest.mark.parametrize("answer", ["<html>captive portal</html>", "2001:db8::1", ""])
def test_answer_that_is_no_address_is_not_written(
    aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    monkeypatch.chdir(tmp_path)
    aws.address = answer
    assert main([*INIT, "--api-access", "mine"]) == 75
    assert "give it yourself, like --api-access 203.0.113.7/32" in capsys.readouterr().err
    assert not (tmp_path / "cluster.yaml").exists()


@pytest.mark.parametrize(
    "text",
    [
        initial.text(chosen([("api", "one")])),
        "name: paddle # mine\nregion: us-west-2\nzones: [us-west-2a, us-west-2b]\n",
        "name: paddle\nregion: us-west-2\nzones: [us-west-2a, us-west-2b]\nkubernetes:\n  version: '1.36' # why\n",
    ],
    ids=["written by init", "bare", "without the fields"],
)
def test_file_keeps_what_the_user_wrote(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    before = yamlfile.load(path, ClusterSpec)
    reach.rewrite(path, reach.Choice((), bastion=True))
    assert yamlfile.load(path, ClusterSpec).kubernetes.bastion
    reach.rewrite(path, reach.Choice(("192.0.2.1/32",)))
    after = yamlfile.load(path, ClusterSpec)
    assert after.kubernetes.api_cidrs == ("192.0.2.1/32",)
    assert (after.nodes, after.kubernetes.version) == (before.nodes, before.kubernetes.version)
    assert [line for line in text.splitlines() if "#" in line] == [
        line for line in path.read_text().splitlines() if "#" in line
    ]


def test_file_that_is_written_otherwise_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    text = "name: paddle\nregion: us-west-2\nzones: [us-west-2a, us-west-2b]\nkubernetes: {api_cidrs: [10.0.0.0/8]}\n"
    path.write_text(text)
    with pytest.raises(InputError):
        reach.rewrite(path, reach.Choice(("192.0.2.1/32",)))
    assert path.read_text() == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["cluster.yaml"]


def test_address_that_changed_is_let_in_by_up(life: Life) -> None:
    assert life.up() == 0, life.output
    life.aws.address = "198.51.100.9"
    assert life.run("up", "--yes", "--api-access", "mine") == 0, life.output
    assert "the API server can be reached from 198.51.100.9/32" in life.output
    assert life.aws.client("eks").describe_cluster(name="paddle")["cluster"]["resourcesVpcConfig"][
        "publicAccessCidrs"
    ] == ["198.51.100.9/32"]
    assert written(life.directory).kubernetes.api_cidrs == ("198.51.100.9/32",)
    (extension,) = yaml.safe_load(Path("kubeconfig").read_text())["contexts"][0]["context"]["extensions"]
    assert extension["extension"]["api_cidrs"] == "198.51.100.9/32"


def test_machine_that_is_not_let_in_is_told_before_anything_is_billed(life: Life) -> None:
    life.patch.setitem(checks.ONLINE, "api server", reach_check.check)
    life.aws.address = "198.51.100.9"
    life.patch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    life.patch.setattr("builtins.input", lambda _: "n")
    assert life.run("up") == 0
    assert "and this machine is 198.51.100.9" in life.output
    life.write(spec())
    assert life.run("up") == 0
    assert "it will answer only inside the VPC" in life.output
    life.assert_nothing_left()


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes no connection and refuses none, as an endpoint behind a security group does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        where = listener.getsockname()
        taken = [socket.socket() for _ in range(2)]
        for each in taken:
            each.setblocking(False)
            each.connect_ex(where)
        yield f"https://127.0.0.1:{where[1]}"
        for each in taken:
            each.close()


@pytest.fixture
def moved(life: Life, silent: str, monkeypatch: pytest.MonkeyPatch) -> Life:
    """A cluster that lets in the address this machine had, and whose API server therefore does not answer."""
    monkeypatch.setattr("umiak.kube.api.CONNECT_SECONDS", 0.5)
    assert life.up() == 0, life.output
    path = Path("kubeconfig")
    content = yaml.safe_load(path.read_text())
    content["clusters"][0]["cluster"]["server"] = silent
    content["users"] = [{"name": content["users"][0]["name"], "user": {"token": "x"}}]
    path.write_text(yaml.safe_dump(content))
    trusted.record(path)
    life.aws.address = "198.51.100.9"
    return life


def test_job_says_that_the_address_has_changed_and_what_to_run(moved: Life, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "ls"]) == 2
    said = capsys.readouterr().err
    assert "this machine is now 198.51.100.9" in said
    assert "let it in with `umiak cluster up --api-access mine`" in said
    assert "[y/N]" not in said
    moved.aws.address = "203.0.113.7"
    assert main(["job", "ls"]) == 75
    assert "does not answer: check the network" in capsys.readouterr().err


class Terminal:
    """A terminal for the code under test, at which somebody answers questions in turn."""

    def __init__(self, patch: pytest.MonkeyPatch, *answers: str) -> None:
        self.shown, self._answers = "", list(answers)
        self._keyboard, program = pty.openpty()
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            patch.setattr(f"sys.{name}", os.fdopen(os.dup(program), mode, buffering=1))
        os.close(program)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        asked = 0
        with contextlib.suppress(OSError):
            while said := os.read(self._keyboard, 4096):
                self.shown += said.decode()
                if self.shown.count("[y/N]") > asked:
                    os.write(self._keyboard, f"{self._answers[asked]}\n".encode())
                    asked += 1

    def close(self) -> None:
        for file in (sys.stdin, sys.stdout, sys.stderr):
            file.close()
        self._thread.join(timeout=30)
        os.close(self._keyboard)


def at_a_terminal(patch: pytest.MonkeyPatch, *answers: str) -> tuple[int, str]:
    """(exit code, what was shown) of `umiak job ls`."""
    with patch.context() as patched:
        terminal = Terminal(patched, *answers)
        try:
            code = main(["job", "ls"])
        finally:
            terminal.close()
    return code, terminal.shown


def test_at_a_terminal_job_offers_to_let_the_new_address_in_and_then_runs(
    moved: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, shown = at_a_terminal(monkeypatch, "n")
    assert code == 2
    assert "Run `umiak cluster up --api-access mine` now?" in shown
    assert written(moved.directory).kubernetes.api_cidrs == ("203.0.113.7/32",)
    code, shown = at_a_terminal(monkeypatch, "y", "n")
    assert code == 2, "what `up` would change was declined"
    code, shown = at_a_terminal(monkeypatch, "y", "y")
    assert code == 0, shown
    assert shown.rstrip().endswith("no jobs in namespace default"), shown
    assert written(moved.directory).kubernetes.api_cidrs == ("198.51.100.9/32",)


@pytest.mark.parametrize("cidrs", [("203.0.113.7/32", "192.0.2.0/24"), ("192.0.2.0/24",)])
def test_addresses_that_were_chosen_by_hand_are_not_offered_to_be_replaced(
    moved: Life, monkeypatch: pytest.MonkeyPatch, cidrs: tuple[str, ...]
) -> None:
    reach.rewrite(Path("cluster.yaml"), reach.Choice(cidrs))
    code, shown = at_a_terminal(monkeypatch)
    assert code == 2
    assert "[y/N]" not in shown
