"""`umiak cluster` as a user meets it: files, speed, and one clear line for everything that can be wrong around it."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cluster_options import chosen, spec
from tests.fake_aws import FakeAws
from umiak.cli.main import main
from umiak.cluster import policy, template
from umiak.cluster.initial import text

pytest_plugins = ("tests.fake_aws.fixtures",)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(text(chosen([("api", "one")])))
    return path


def test_render_writes_every_asset_and_names_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = file.parent / "deep" / "rendered"
    assert main(["cluster", "render", "--file", str(file), "--out", str(out)]) == 0
    assert capsys.readouterr().out.split() == [str(out / path.name) for path in map(Path, capsys_order(out))]
    given = chosen([("api", "one")])
    assert yaml.safe_load((out / "template.yaml").read_text()) == template.build(given)
    kinds = [manifest["kind"] for manifest in yaml.safe_load_all((out / "kubernetes.yaml").read_text())]
    assert kinds == ["PersistentVolume", "PersistentVolumeClaim", "ServiceAccount"]
    for name, items in policy.documents(given, template.types(template.build(given))).items():
        assert json.loads((out / f"policy-{name}.json").read_text()) == json.loads(policy.text(items))


def capsys_order(out: Path) -> list[str]:
    names = [
        "template.yaml",
        "kubernetes.yaml",
        "policy-boundary.json",
        "policy-use.json",
        "policy-plan.json",
        "policy-deploy-network.json",
        "policy-deploy-services.json",
        "policy-deploy-roles.json",
    ]
    assert {path.name for path in out.iterdir()} == {*names, "summary.md"}
    return [*names, "summary.md"]


def test_summary_says_what_a_person_must_know(file: Path) -> None:
    out = file.parent / "rendered"
    main(["cluster", "render", "--file", str(file), "--out", str(out)])
    summary = (out / "summary.md").read_text()
    for wanted in (
        "3 × m6i.large",
        "from the VPC and 203.0.113.7/32",
        "us-west-2a | 10.20.0.0/18",
        "shared volume (EFS) | keep",
        "aws cloudformation deploy --region us-west-2 --stack-name paddle",
        "umiak:cluster = paddle",
    ):
        assert wanted in summary, wanted
    for statement in ("PlanLook", "DeployEc2", "TlsOnly", "AccountDecidesByIam"):
        assert statement in summary, f"no reason for the wildcard of {statement}"


def timed(*words: str, cwd: Path) -> float:
    """Seconds of processor time of a fresh process, the median of three: others may be busy here."""
    command = [sys.executable, "-m", "umiak.cli.main", *words]
    taken = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=cwd, check=True, capture_output=True, env=os.environ)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)


@pytest.mark.parametrize("verb", [["render"], ["validate", "--offline"]], ids=" ".join)
def test_what_needs_nobody_takes_less_than_a_second(file: Path, verb: list[str]) -> None:
    assert timed("cluster", *verb, cwd=file.parent) < 1.0


def test_offline_verbs_do_not_load_boto3(file: Path) -> None:
    code = (
        "import sys; from umiak.cli.main import main\n"
        "assert main(['cluster', 'render']) == 0 and main(['cluster', 'validate', '--offline']) == 0\n"
        "assert not {'boto3', 'botocore', 'torch', 'numpy'} & set(sys.modules), 'loaded what it does not need'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=file.parent, check=True, capture_output=True)


@pytest.mark.parametrize("missing", ["yaml", "troposphere", "boto3"])
def test_missing_extra_says_what_to_install(file: Path, missing: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from umiak.cli.main import main; exit(main(['cluster', 'validate']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=file.parent, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'umiak[cluster]'" in done.stderr


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a command that fails on the user's input."""
    assert main(["cluster", *words]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    return line


def test_missing_file_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("render", "validate", "cost"):
        line = fails(capsys, verb, "--file", str(tmp_path / "cluster.yaml"))
        assert "no such file; write one with `umiak cluster init" in line


def test_directory_that_cannot_be_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, "render", "--file", str(file), "--out", str(file / "below-a-file"))
    assert "cannot write to" in line
    assert "--out" in line


def test_no_verb_and_a_wrong_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert "see umiak cluster --help" in fails(capsys)
    assert "invalid choice: 'fly'" in fails(capsys, "fly")


@pytest.mark.parametrize("verb", ["validate", "cost"])
def test_no_credentials(
    aws: FakeAws, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    for name in aws.admin.environment:
        monkeypatch.delenv(name)
    line = fails(capsys, verb, "--file", str(file))
    assert line.startswith("umiak: no usable AWS credentials")
    assert "aws configure" in line


@pytest.mark.parametrize("verb", ["validate", "cost"])
def test_expired_credentials(aws: FakeAws, file: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    aws.admin.expired = True
    line = fails(capsys, verb, "--file", str(file))
    assert "have expired" in line
    assert "aws sso login" in line


def test_credentials_aws_does_not_know(
    aws: FakeAws, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOBODY")
    assert "AWS does not know these credentials (InvalidClientTokenId)" in fails(
        capsys, "validate", "--file", str(file)
    )


def test_profile_that_does_not_exist(
    aws: FakeAws, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "elsewhere")
    line = fails(capsys, "validate", "--file", str(file))
    assert "elsewhere" in line
    assert "AWS_PROFILE" in line


def test_aws_out_of_reach_is_worth_another_try(
    aws: FakeAws, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert main(["cluster", "validate", "--file", str(file)]) == 75
    assert "cannot reach AWS for sts:GetCallerIdentity in us-east-1" in capsys.readouterr().err


def test_busy_aws_is_worth_another_try(
    aws: FakeAws, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    aws.fail("sts", "GetCallerIdentity", "Throttling")
    assert main(["cluster", "validate", "--file", str(file)]) == 75
    assert "AWS is busy" in capsys.readouterr().err
    assert len(aws.journal) == 5, "asked five times, then no more"


def test_denied_action_is_named_with_the_policy_that_allows_it(
    aws: FakeAws, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aws.admin.deny("cloudformation:DescribeStacks")
    line = fails(capsys, "validate", "--file", str(file))
    assert (
        "not allowed to do cloudformation:DescribeStacks in us-west-2; attach the policies that `umiak cluster render` writes"
        in line
    )


def test_wrong_region(aws: FakeAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text(spec(region="us-west-9")))
    assert main(["cluster", "validate", "--file", str(path)]) == 2
    assert "AWS has no region us-west-9" in capsys.readouterr().out
