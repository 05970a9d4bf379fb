"""cluster.yaml and `umiak cluster init`: typed, every field with its default, every error with its field and line."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster_options import ADMIN, CHOICES, KEY_ID, chosen, spec
from umiak.cli.main import main
from umiak.cluster.initial import text
from umiak.errors import InputError
from umiak.spec import yamlfile
from umiak.spec.cluster import ClusterSpec, is_arm

GOOD = """\
name: paddle
region: us-west-2
zones: [us-west-2a, us-west-2b]
"""


def parse(content: str) -> ClusterSpec:
    return yamlfile.parse(content, "cluster.yaml", ClusterSpec)


def complaints(content: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse(content)
    return str(caught.value).splitlines()


def init(tmp_path: Path, *flags: str) -> Path:
    file = tmp_path / "cluster.yaml"
    assert main(["cluster", "init", "--file", str(file), *flags]) == 0
    return file


def load(file: Path) -> ClusterSpec:
    return yamlfile.load(file, ClusterSpec)


def test_three_fields_are_enough_and_the_rest_has_defaults() -> None:
    given = parse(GOOD)
    assert given == spec()
    assert (given.nodes.count, given.nodes.types, given.network.nat) == (3, ("m6i.large",), "single")


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_file_reads_back_as_it_was_written(choice: Any) -> None:
    given = chosen([choice])
    assert parse(text(given)) == given


def test_written_file_has_every_field_with_a_comment_above_it() -> None:
    lines = text(spec()).splitlines()

    def check(value: Any) -> None:
        for field in fields(value):
            found = [i for i, line in enumerate(lines) if line.strip().startswith(f"{field.name}:")]
            assert found, field.name
            assert all(lines[at - 1].strip().startswith("#") for at in found), field.name
            if is_dataclass(getattr(value, field.name)):
                check(getattr(value, field.name))

    check(spec())
    assert max(map(len, lines)) <= 105
    assert yaml.safe_load(text(spec()))["kubernetes"]["version"] == "1.37"


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (GOOD + "nodes: {coun: 3}\n", "cluster.yaml:4: nodes.coun: unknown field; did you mean count?"),
        (GOOD + "colour: blue\n", "cluster.yaml:4: colour: unknown field; the fields here are name, region, zones"),
        ("name: paddle\nregion: us-west-2\n", "cluster.yaml:1: zones: missing; write “zones: …”"),
        (GOOD + "nodes:\n  count: many\n", "cluster.yaml:5: nodes.count: must be a whole number, not 'many'"),
        (GOOD + "nodes:\n  count: 3.5\n", "cluster.yaml:5: nodes.count: must be a whole number, not '3.5'"),
        (GOOD + "nodes:\n  spot: 1\n", "cluster.yaml:5: nodes.spot: must be true or false, not '1'"),
        (
            GOOD + "nodes:\n  types: m6i.large\n",
            "cluster.yaml:5: nodes.types: must be a list, like [a, b], not 'm6i.large'",
        ),
        (GOOD + "nodes:\n  types: [[m6i.large]]\n", "cluster.yaml:5: nodes.types[0]: must be text, not a list"),
        (GOOD + "nodes: 3\n", "cluster.yaml:4: nodes: must hold fields such as “count: …”, not '3'"),
        (GOOD + "nodes:\n", "cluster.yaml:4: nodes: must hold fields such as “count: …”, not nothing"),
        (
            GOOD + "network: {nat: both}\n",
            "cluster.yaml:4: network.nat: must be one of single, per-zone, none, not 'both'",
        ),
        (GOOD + "name: other\n", "cluster.yaml:4: name: written twice; the first is on line 1"),
        (GOOD.replace("paddle", "yes"), "cluster.yaml:1: name: must be text, not 'yes'; put it in quotes"),
        (GOOD.replace("name: paddle", "name:"), "cluster.yaml:1: name: must be text, not nothing"),
        ("[1, 2]", "cluster.yaml:1: must hold fields such as “name: …”, not a list"),
        ("name: [", "cluster.yaml:1: not YAML:"),
        ("", "cluster.yaml:1: name: missing"),
    ],
)
def test_mistake_in_the_file_is_named_with_its_line(content: str, wanted: str) -> None:
    assert complaints(content)[0].startswith(wanted)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("name", "Paddle", "1 to 40 of a-z, 0-9 and -"),
        ("name", "1paddle", "beginning with a letter"),
        ("name", "pad_dle", "1 to 40 of a-z, 0-9 and -"),
        ("name", "p" * 41, "1 to 40 of a-z, 0-9 and -"),
        ("region", "Oregon", "must be a region like us-west-2"),
        ("zones", "[us-west-2a]", "must name 2 or 3 zones"),
        ("zones", "[us-west-2a, us-west-2a]", "must name different zones"),
        ("zones", "[us-west-2a, us-east-1b]", "'us-east-1b' is not a zone of us-west-2"),
        ("zones", "[us-west-2a, us-west-2-lax-1a]", "no local zones"),
        ("account", "12345", "must be 12 digits"),
        ("kms_key_arn", "alias/mine", "must be the ARN of a key"),
        (
            "kms_key_arn",
            f"arn:aws:kms:us-east-1:123456789012:key/{KEY_ID}",
            "the key is in us-east-1; it must be in us-west-2",
        ),
        ("kubernetes", '{version: "1.30"}', 'must be "1.35" or newer'),
        ("kubernetes", "{version: latest}", 'must look like "1.37"'),
        ("kubernetes", "{api_cidrs: [203.0.113.7/24]}", "has host bits set"),
        ("kubernetes", "{admin_arn: arn:aws:sts::123456789012:assumed-role/Admin/me}", "the role's own ARN"),
        ("nodes", "{count: -1}", "must be 0 to 450"),
        ("nodes", "{disk_gb: 5}", "must be 20 to 16384"),
        ("nodes", "{types: []}", "must name 1 to 20 instance types"),
        ("nodes", "{types: [large]}", "must be instance types like m6i.large"),
        ("nodes", "{types: [m6i.large, m6i.large]}", "must name different instance types"),
        ("nodes", "{types: [m6i.large, m7g.large]}", "all arm64 or all x86_64: m6i.large (x86_64), m7g.large (arm64)"),
        ("network", "{cidr: 10.0.0.0/24}", "must be between /16 and /22"),
        ("network", "{cidr: 8.8.0.0/16}", "must be a private range"),
        ("destroy", "{key: delete}", "must be keep while destroy.volume is keep"),
    ],
)
def test_value_that_aws_would_refuse_is_refused_here(name: str, value: str, wanted: str) -> None:
    lines = [line for line in GOOD.splitlines() if not line.startswith(f"{name}:")]
    (complaint,) = complaints("\n".join([*lines, f"{name}: {value}"]))
    assert wanted in complaint
    assert complaint.startswith(f"cluster.yaml:{len(lines) + 1}: {name}")


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    found = complaints("name: X\nregion: here\nzones: [a, b]\nnodes: {count: x}\n")
    assert [line.split(":")[1] for line in found] == ["1", "2", "4"]


def test_version_and_account_are_taken_as_written_even_without_quotes() -> None:
    given = parse(GOOD + "account: 012345678901\nkubernetes: {version: 1.40}\n")
    assert (given.account, given.kubernetes.version) == ("012345678901", "1.40")


def test_init_writes_what_the_flags_say(tmp_path: Path) -> None:
    key = f"arn:aws:kms:us-east-2:123456789012:key/{KEY_ID}"
    file = init(
        tmp_path, "--name", "paddle", "--region", "us-east-2", "--zone", "us-east-2c", "--nodes", "5", "--node-type",
        "m6i.large, m5.large", "--spot", "--key-name", "laptop", "--kms-key-arn", key, "--api-cidr", "203.0.113.7/32",
    )  # fmt: skip
    given = load(file)
    assert given.zones == ("us-east-2c", "us-east-2a")
    assert (given.nodes.count, given.nodes.types, given.nodes.spot) == (5, ("m6i.large", "m5.large"), True)
    assert (given.nodes.key_name, given.kms_key_arn, given.kubernetes.api_cidrs) == ("laptop", key, ("203.0.113.7/32",))


def test_spot_without_types_gets_several_of_one_size(tmp_path: Path) -> None:
    given = load(init(tmp_path, "--name", "paddle", "--region", "us-west-2", "--spot"))
    assert len(given.nodes.types) > 1
    assert {name.partition(".")[2] for name in given.nodes.types} == {"large"}


def test_init_does_not_overwrite_what_the_user_edited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = init(tmp_path, "--name", "paddle", "--region", "us-west-2")
    file.write_text("mine")
    assert main(["cluster", "init", "--file", str(file), "--name", "paddle", "--region", "us-west-2"]) == 2
    assert "exists; edit it, or replace it with --overwrite" in capsys.readouterr().err
    assert file.read_text() == "mine"
    init(tmp_path, "--name", "paddle", "--region", "us-west-2", "--overwrite")
    assert load(file) == spec()


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (["--region", "us-west-2"], "--name is missing"),
        (["--name", "paddle"], "--region is missing"),
        (["--name", "Paddle", "--region", "us-west-2"], "--name: must be 1 to 40"),
        (
            ["--name", "paddle", "--region", "us-west-2", "--zone", "us-east-1a"],
            "--zone: 'us-east-1a' is not a zone of us-west-2",
        ),
        (["--name", "paddle", "--region", "us-west-2", "--nodes", "-2"], "--nodes: must be 0 to 450"),
        (["--name", "paddle", "--region", "us-west-2", "--nodes", "few"], "argument --nodes: invalid int value: 'few'"),
        (["--name", "paddle", "--region", "us-west-2", "--node-type", "big"], "--node-type: must be instance types"),
        (
            ["--name", "paddle", "--region", "us-west-2", "--kms-key-arn", "alias/x"],
            "--kms-key-arn: must be the ARN of a key",
        ),
        (["--name", "paddle", "--region", "us-west-2", "--colour", "blue"], "unrecognized arguments: --colour blue"),
    ],
)
def test_mistake_in_a_flag_names_the_flag_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], wanted: str
) -> None:
    file = tmp_path / "cluster.yaml"
    assert main(["cluster", "init", "--file", str(file), *flags]) == 2
    assert wanted in capsys.readouterr().err
    assert not file.exists()


KUBE_UP = {
    "NUM_NODES": "2",
    "NODE_SIZE": "m5.large",
    "MASTER_SIZE": "m3.medium",
    "KUBE_AWS_ZONE": "eu-west-1c",
    "AWS_S3_BUCKET": "mycompany-kubernetes-artifacts",
    "AWS_S3_REGION": "eu-west-1",
    "KUBE_AWS_INSTANCE_PREFIX": "k8s",
}


def test_variables_of_the_tutorials_become_a_file_and_the_meaningless_ones_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in KUBE_UP.items():
        monkeypatch.setenv(name, value)
    given = load(init(tmp_path, "--from-env"))
    assert (given.name, given.region, given.zones[0]) == ("k8s", "eu-west-1", "eu-west-1c")
    assert (given.nodes.count, given.nodes.types) == (2, ("m5.large",))
    printed = capsys.readouterr().out
    meaningless = [line.partition(":")[0] for line in printed.splitlines() if "has no meaning on EKS" in line]
    assert meaningless == ["MASTER_SIZE", "AWS_S3_BUCKET", "AWS_S3_REGION"]


def test_flags_win_over_the_tutorials_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KUBE_UP.items():
        monkeypatch.setenv(name, value)
    given = load(init(tmp_path, "--from-env", "--name", "mine", "--nodes", "7"))
    assert (given.name, given.nodes.count) == ("mine", 7)


def test_bad_variable_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (KUBE_UP | {"NUM_NODES": "a few"}).items():
        monkeypatch.setenv(name, value)
    assert main(["cluster", "init", "--from-env", "--file", str(tmp_path / "c.yaml")]) == 2
    assert "NUM_NODES must be a whole number, not 'a few'" in capsys.readouterr().err
    monkeypatch.setenv("NUM_NODES", "3")
    monkeypatch.setenv("KUBE_AWS_INSTANCE_PREFIX", "My_Cluster")
    assert main(["cluster", "init", "--from-env", "--file", str(tmp_path / "c.yaml")]) == 2
    assert "KUBE_AWS_INSTANCE_PREFIX: must be 1 to 40" in capsys.readouterr().err


def test_architecture_is_read_from_the_family_as_aws_has_it() -> None:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    wrong = [
        name
        for name, kind in INSTANCE_TYPES.items()
        if is_arm(name) != ("arm64" in kind["ProcessorInfo"]["SupportedArchitectures"])
    ]
    assert wrong == []


def test_account_of_a_key_or_administrator_must_be_the_clusters() -> None:
    given = replace(chosen([("admin", "named"), ("kms", "own")]), account="999999999999")
    assert [path for path, _ in yamlfile.complaints(given)] == ["kms_key_arn", "kubernetes.admin_arn"]
    assert ADMIN.split(":")[4] != "999999999999"
