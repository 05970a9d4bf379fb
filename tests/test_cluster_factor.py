"""A profile with `mfa_serial`: one code for all of `umiak cluster`, the kubeconfig's plugin and the AWS CLI; without a terminal
one clear line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_aws import FakeAws
from tests.fake_aws.people import ADMIN

pytest_plugins = ("tests.fake_aws.fixtures",)
TOKEN = ["cluster", "token", "--name", "paddle", "--region", "us-west-2"]


@pytest.fixture
def profile(aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeAws:
    """A home whose profile `work` is a role that wants a code."""
    user = aws.people.user("Somebody", ADMIN)
    aws.people.role("Work", ADMIN)
    aws.identity.code = "123456"
    config = tmp_path / "config"
    config.write_text(
        "[profile work]\nrole_arn = arn:aws:iam::123456789012:role/Work\nsource_profile = keys\n"
        "mfa_serial = arn:aws:iam::123456789012:mfa/phone\nregion = us-west-2\n"
    )
    credentials = tmp_path / "credentials"
    credentials.write_text(f"[keys]\naws_access_key_id = {user.key_id}\naws_secret_access_key = secret\n")
    for name in aws.admin.environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_PROFILE", "work")
    return aws


def alone(*words: str) -> subprocess.CompletedProcess[str]:
    """Without a terminal, as kubectl runs the plugin, in a session of its own."""
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
        check=False,
    )


def typed(code: str, *words: str) -> tuple[int, str]:
    """(exit code, what the terminal showed) of a command at a terminal, where the code is typed when it is asked for."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", *words])
    shown = b""
    try:
        while True:
            shown += os.read(terminal, 4096)
            if b"MFA code" in shown and code:
                os.write(terminal, f"{code}\n".encode())
                code = ""
    except OSError:
        """The terminal closes with the last process on it."""
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode(errors="replace")


def codes(aws: FakeAws) -> int:
    return sum(call.operation == "AssumeRole" for call in aws.journal)


def test_without_a_terminal_there_is_one_line_that_says_what_to_run(profile: FakeAws) -> None:
    done = alone("umiak.cli.main", *TOKEN)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "the AWS profile work requires a code (MFA)" in line
    assert "aws sts get-caller-identity --profile work" in line
    assert codes(profile) == 0


def test_one_code_is_enough_for_every_process_and_the_plugin(profile: FakeAws) -> None:
    code, shown = typed("123456", "umiak.cli.main", *TOKEN)
    assert code == 0, shown
    assert shown.count("MFA code") == 1
    for _ in range(2):
        done = alone("umiak.cli.main", *TOKEN)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["status"]["token"].startswith("k8s-aws-v1.")
    who = alone("awscli", "sts", "get-caller-identity", "--output", "json")
    assert json.loads(who.stdout)["Arn"].endswith(":assumed-role/Work/session"), who.stderr
    assert codes(profile) == 1


def test_sign_in_of_the_aws_cli_is_used(profile: FakeAws) -> None:
    code, shown = typed("123456", "awscli", "sts", "get-caller-identity")
    assert code == 0, shown
    assert alone("umiak.cli.main", *TOKEN).returncode == 0
    assert codes(profile) == 1


def test_wrong_code_is_asked_for_once_and_named(profile: FakeAws) -> None:
    code, shown = typed("000000", "umiak.cli.main", *TOKEN)
    assert code == 2
    assert shown.count("MFA code") == 1
    assert "invalid MFA one time pass code" in shown
    assert "Traceback" not in shown
