"""`umiak cluster validate`: what could stop a cluster is found before anything is created, and each finding says what to do."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cluster_options import KEY_ID, chosen, spec
from tests.fake_aws import FakeAws
from tests.fake_aws.operations import Stack
from umiak.cli.main import main
from umiak.cluster import checks, template
from umiak.cluster.aws import Aws
from umiak.cluster.checks.finding import Finding
from umiak.cluster.checks.offline import STANDARD_SUPPORT_ENDS
from umiak.cluster.initial import text
from umiak.errors import InputError
from umiak.spec.cluster import ClusterSpec, default_zones

pytest_plugins = ("tests.fake_aws.fixtures",)
TODAY = date(2026, 11, 16)
REACHABLE = [("api", "one")]


def findings(given: ClusterSpec, level: str | None = None, *, only: str | None = None) -> list[Finding]:
    """What `validate` finds; with `only`, by that one of the checks that ask AWS about the plan."""
    with pytest.MonkeyPatch.context() as patch:
        if only is not None:
            patch.setattr(checks, "ONLINE", {name: check for name, check in checks.ONLINE.items() if name == only})
        found = checks.run(given, Aws(given.region), TODAY)
    assert all(item.fix for item in found if item.level != "info"), "a finding without advice"
    return [item for item in found if level in (None, item.level)]


def texts(given: ClusterSpec, level: str, only: str | None = None) -> list[str]:
    return [f"{item.check}: {item.text}" for item in findings(given, level, only=only)]


def offline(given: ClusterSpec, level: str, today: date = TODAY) -> list[str]:
    return [f"{item.check}: {item.text}" for item in checks.run(given, None, today) if item.level == level]


def the_one(found: list[str]) -> str:
    assert len(found) == 1, found
    return found[0]


def nodes(**changes: Any) -> ClusterSpec:
    base = chosen(REACHABLE)
    return replace(base, nodes=replace(base.nodes, **changes))


def test_a_good_plan_in_an_empty_account_has_nothing_against_it(aws: FakeAws) -> None:
    found = findings(chosen(REACHABLE))
    assert {item.level for item in found} == {"info"}, found
    said = {item.check for item in found}
    assert {
        "credentials",
        "region",
        "services",
        "zones",
        "node types",
        "kubernetes",
        "name",
        "network",
        "template",
    } <= said
    assert {"quotas", "permissions"} <= said


def test_every_finding_is_printed_with_its_advice_and_errors_decide_the_exit_code(
    aws: FakeAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text(nodes(types=("m6i.huge",))))
    assert main(["cluster", "validate", "--file", str(file)]) == 2
    printed = capsys.readouterr().out
    assert "error    node types   us-west-2 has no m6i.huge" in printed
    assert "→ choose another type for nodes.types" in printed
    assert printed.strip().endswith("1 error, 0 warnings")
    file.write_text(text(chosen(REACHABLE)))
    assert main(["cluster", "validate", "--file", str(file)]) == 0


def test_offline_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    assert offline(chosen(REACHABLE), "error") == offline(chosen(REACHABLE), "warning") == []


def test_wrong_account_is_refused(aws: FakeAws) -> None:
    found = the_one(texts(replace(chosen(REACHABLE), account="999999999999"), "error", ""))
    assert "belongs to account 123456789012, but cluster.yaml says 999999999999" in found


def test_root_credentials_are_a_warning(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    become(aws.people.root(), monkeypatch)
    assert "credentials: these are the account's root credentials" in the_one(texts(chosen(REACHABLE), "warning", ""))


def become(person: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in person.environment.items():
        monkeypatch.setenv(name, value)


def test_region_that_does_not_exist_names_one_that_does(aws: FakeAws) -> None:
    (found,) = findings(spec(region="us-west-9"), "error", only="")
    assert (found.text, found.fix) == ("AWS has no region us-west-9", "write one that exists in region, like us-west-2")


def test_region_that_is_not_enabled(aws: FakeAws) -> None:
    (found,) = findings(spec(region="ap-east-1"), "error", only="")
    assert "not enabled for this account" in found.text
    assert found.fix.endswith("aws account enable-region --region-name ap-east-1")


def test_region_without_a_service(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umiak.cluster.checks.account.SERVICES", ("eks", "telepathy"))
    assert "us-west-2 does not offer telepathy" in the_one(texts(chosen(REACHABLE), "error", "services"))


def test_zone_that_cannot_hold_a_control_plane_is_known_by_its_id(aws: FakeAws) -> None:
    given = replace(spec(region="us-east-1"), zones=("us-east-1a", "us-east-1e"))
    (found,) = findings(given, "error", only="zones")
    assert found.text == "us-east-1e is use1-az3, which cannot hold an EKS control plane"
    assert "us-east-1e" not in found.fix
    assert "us-east-1b" in found.fix


def test_zone_the_account_does_not_have(aws: FakeAws) -> None:
    given = replace(chosen(REACHABLE), zones=("us-west-2a", "us-west-2z"))
    assert "zones: this account has no zone us-west-2z" in texts(given, "error", "zones")


def test_instance_type_that_another_zone_has(aws: FakeAws) -> None:
    given = replace(spec(region="us-east-1"), zones=("us-east-1f", "us-east-1a"))
    given = replace(given, nodes=replace(given.nodes, types=("c3.large",)))
    found = the_one(texts(given, "error", "node types"))
    assert found.startswith("node types: us-east-1f has no c3.large; ")
    assert "us-east-1a" in found


def test_zone_without_the_type_of_the_bastion(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    given = chosen([("api", "private")])
    assert texts(given, "error", "node types") == []
    monkeypatch.setattr("umiak.cluster.template.bastion.TYPE", "t9z.nano")
    assert "us-west-2a has no t9z.nano, which the bastion needs" in the_one(texts(given, "error", "node types"))


@pytest.mark.parametrize(
    ("types", "said"),
    [
        (("t3.micro",), "t3.micro has 1024 MiB of memory, too little"),
        (("g5.xlarge",), "the GPU of g5.xlarge would be paid for and idle"),
        (("m6i.large", "m6i.xlarge"), "m6i.large has 2 vCPUs, m6i.xlarge has 4 vCPUs: in synchronous training"),
    ],
)
def test_instance_type_that_would_disappoint(aws: FakeAws, types: tuple[str, ...], said: str) -> None:
    assert said in the_one(texts(nodes(types=types), "warning", "node types"))


def test_kubernetes_version_eks_does_not_offer(aws: FakeAws) -> None:
    base = chosen(REACHABLE)
    found = findings(replace(base, kubernetes=replace(base.kubernetes, version="1.99")), "error", only="kubernetes")
    assert [item.fix for item in found] == ["write one of 1.35, 1.36, 1.37 for kubernetes.version"]


def test_kubernetes_version_near_the_end_of_its_support_offline() -> None:
    ends = STANDARD_SUPPORT_ENDS[spec().kubernetes.version]
    assert ends == max(STANDARD_SUPPORT_ENDS.values()), "the default is the newest version"
    assert offline(chosen(REACHABLE), "error", ends.replace(year=ends.year + 1))
    assert f"leaves standard support on {ends}" in the_one(offline(chosen(REACHABLE), "warning", ends - timedelta(30)))


def test_stack_of_that_name_that_is_not_ours_is_refused(aws: FakeAws) -> None:
    aws.deploy(
        "paddle", json.dumps({"Resources": {"Hook": {"Type": "AWS::EC2::InternetGateway", "Properties": {"Tags": []}}}})
    )
    assert "a stack named paddle exists (CREATE_COMPLETE) and is not an umiak cluster" in the_one(
        texts(chosen(REACHABLE), "error", "name")
    )


def test_cluster_that_exists_is_recognised_whoever_deployed_it(aws: FakeAws) -> None:
    assert aws.deploy("paddle", template.text(chosen(REACHABLE))) == "CREATE_COMPLETE"
    found = findings(chosen(REACHABLE))
    assert {item.level for item in found} == {"info"}, found
    assert "the cluster exists already (CREATE_COMPLETE)" in [item.text for item in found]
    pause = [item for item in findings(nodes(count=0), only="") if item.check == "nodes"]
    assert [item.level for item in pause] == ["info"], "no nodes is a pause for a cluster that exists"


@pytest.mark.parametrize(
    ("status", "level", "said"),
    [
        ("ROLLBACK_COMPLETE", "warning", "is ours and ROLLBACK_COMPLETE"),
        ("DELETE_FAILED", "warning", "is ours and DELETE_FAILED"),
        ("REVIEW_IN_PROGRESS", "error", "is not an umiak cluster"),
        ("UPDATE_IN_PROGRESS", "warning", "is changing (UPDATE_IN_PROGRESS)"),
    ],
)
def test_stack_in_a_state_that_blocks_its_name(aws: FakeAws, status: str, level: str, said: str) -> None:
    made = Stack("paddle", "us-west-2", template.text(chosen(REACHABLE)), {}, status=status)
    aws.stacks.stacks["us-west-2", "paddle"] = made
    assert said in the_one(texts(chosen(REACHABLE), level, "name"))


def test_what_an_earlier_cluster_left_behind_is_found(aws: FakeAws) -> None:
    aws.client("logs").create_log_group(logGroupName="/aws/eks/paddle/cluster")
    aws.client("iam").create_role(RoleName="paddle-us-west-2-nodes", AssumeRolePolicyDocument="{}")
    aws.eks.clusters["paddle"] = {"name": "paddle", "region": "us-west-2"}
    found = texts(chosen(REACHABLE), "error", "name")
    assert len(found) == 3
    assert "log group /aws/eks/paddle/cluster is left" in found[1]
    assert "IAM role paddle-us-west-2-nodes exists" in found[2]


def test_vpc_with_the_same_addresses_is_a_warning(aws: FakeAws) -> None:
    aws.client("ec2").create_vpc(
        CidrBlock="10.20.128.0/20",
        TagSpecifications=[{"ResourceType": "vpc", "Tags": [{"Key": "Name", "Value": "office"}]}],
    )
    assert "10.20.0.0/16 overlaps 10.20.128.0/20 of office" in the_one(texts(chosen(REACHABLE), "warning", "network"))


def test_key_pair_that_does_not_exist(aws: FakeAws) -> None:
    given = chosen([*REACHABLE, ("ssh", "key")])
    assert "there is no EC2 key pair laptop in us-west-2" in the_one(texts(given, "error", "key pair"))
    aws.client("ec2").create_key_pair(KeyName="laptop")
    assert texts(given, "error", "key pair") == []


def own_key(
    aws: FakeAws, service: str | None, spec: str = "SYMMETRIC_DEFAULT", usage: str = "ENCRYPT_DECRYPT"
) -> ClusterSpec:
    statements = [
        {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "kms:*", "Resource": "*"}
    ]
    if service:
        statements.append(
            {"Effect": "Allow", "Principal": {"Service": service}, "Action": "kms:Encrypt", "Resource": "*"}
        )
    body = json.dumps({"Version": "2012-10-17", "Statement": statements})
    arn = aws.client("kms").create_key(Policy=body, KeySpec=spec, KeyUsage=usage)["KeyMetadata"]["Arn"]
    return replace(chosen(REACHABLE), kms_key_arn=arn)


def test_kms_key_that_does_not_exist(aws: FakeAws) -> None:
    assert f"{KEY_ID} does not exist" in the_one(texts(chosen([*REACHABLE, ("kms", "own")]), "error", "kms key"))


def test_kms_key_as_the_tutorial_made_it_cannot_encrypt_logs(aws: FakeAws) -> None:
    (found,) = findings(own_key(aws, None), "error", only="kms key")
    assert "does not let logs.us-west-2.amazonaws.com use it" in found.text
    assert '"Service": "logs.us-west-2.amazonaws.com"' in found.fix
    assert texts(own_key(aws, "logs.us-west-2.amazonaws.com"), "error", "kms key") == []


def test_kms_key_that_is_disabled_or_of_the_wrong_kind(aws: FakeAws) -> None:
    given = own_key(aws, "logs.us-west-2.amazonaws.com")
    aws.client("kms").disable_key(KeyId=str(given.kms_key_arn).rpartition("/")[2])
    assert "the key is Disabled" in the_one(texts(given, "error", "kms key"))
    wrong = own_key(aws, None, "RSA_2048", "SIGN_VERIFY")
    assert "the key is RSA_2048 for SIGN_VERIFY" in the_one(texts(wrong, "error", "kms key"))


@pytest.mark.parametrize(
    ("quota", "limit", "said"),
    [
        (("vpc", "L-F678F1CE"), 1, "VPCs in the region: 1 of 1 in use, 1 more needed"),
        (("ec2", "L-0263D0A3"), 0, "elastic IP addresses: 0 of 0 in use, 1 more needed"),
        (("vpc", "L-FE5A380F"), 0, "NAT gateways in us-west-2a: 0 of 0 in use"),
        (("vpc", "L-A4707A72"), 0, "internet gateways: 0 of 0 in use"),
        (("eks", "L-1194D53C"), 0, "EKS clusters: 0 of 0 in use"),
        (("ec2", "L-1216C47A"), 5, "vCPUs of on-demand standard instances: 0 of 5 in use, 6 more needed"),
    ],
)
def test_quota_without_room(aws: FakeAws, quota: tuple[str, str], limit: int, said: str) -> None:
    aws.quotas.applied[quota] = limit
    (found,) = findings(chosen(REACHABLE), "error", only="quotas")
    assert said in found.text
    assert f"--quota-code {quota[1]}" in found.fix


def gateway(aws: FakeAws, zone: str) -> None:
    """A NAT gateway of somebody else's in that zone."""
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, AvailabilityZone=zone, CidrBlock="10.77.0.0/24")["Subnet"]["SubnetId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    ec2.create_nat_gateway(AllocationId=address, SubnetId=subnet)


def test_nat_gateways_count_in_their_own_zone_only(aws: FakeAws) -> None:
    aws.quotas.applied["vpc", "L-FE5A380F"] = 1
    gateway(aws, "us-west-2b")
    assert texts(chosen(REACHABLE), "error", "quotas") == []
    each = chosen([*REACHABLE, ("nat", "per-zone")])
    assert "NAT gateways in us-west-2b: 1 of 1 in use, 1 more needed" in the_one(texts(each, "error", "quotas"))
    gateway(aws, "us-west-2a")
    assert "NAT gateways in us-west-2a: 1 of 1 in use" in the_one(texts(chosen(REACHABLE), "error", "quotas"))


@pytest.mark.parametrize(
    "kind", ["trn1.2xlarge", "inf1.xlarge", "hpc6a.48xlarge", "mac1.metal", "u-6tb1.metal", "dl1.24xlarge"]
)
def test_instances_with_quotas_of_their_own_are_not_standard(aws: FakeAws, kind: str) -> None:
    from umiak.cluster.checks.quotas import is_standard

    assert not is_standard(kind)
    aws.client("ec2").run_instances(ImageId="ami-12c6146b", InstanceType=kind, MinCount=1, MaxCount=1)
    aws.quotas.applied["ec2", "L-1216C47A"] = 6
    assert texts(chosen(REACHABLE), "error", "quotas") == []


@pytest.mark.parametrize(
    "kind", ["m6i.large", "im4gn.large", "is4gen.medium", "t4g.nano", "z1d.large", "h1.2xlarge", "m7i-flex.large"]
)
def test_instances_of_the_standard_families(kind: str) -> None:
    from umiak.cluster.checks.quotas import is_standard

    assert is_standard(kind)


def test_running_instances_count_against_the_quota_of_their_own_kind(aws: FakeAws) -> None:
    aws.client("ec2").run_instances(ImageId="ami-12c6146b", InstanceType="m6i.large", MinCount=1, MaxCount=1)
    aws.quotas.applied["ec2", "L-1216C47A"] = 6
    aws.quotas.applied["ec2", "L-34B43A08"] = 6
    assert "in use, 6 more needed" in the_one(texts(chosen(REACHABLE), "error", "quotas"))
    assert texts(nodes(spot=True, types=("m6i.large", "m5.large")), "error", "quotas") == []


def test_spot_with_one_type_and_no_way_in_and_a_clash_with_docker_are_warned_about_offline() -> None:
    base = spec()
    given = replace(base, nodes=replace(base.nodes, spot=True), network=replace(base.network, cidr="172.17.0.0/16"))
    found = offline(given, "warning")
    assert [line.partition(":")[0] for line in found] == ["api server", "nodes", "network"]
    wide = replace(base, kubernetes=replace(base.kubernetes, api_cidrs=("0.0.0.0/0",)))
    assert "nearly everybody" in the_one(offline(wide, "warning"))


def test_no_nodes_cannot_be_created(aws: FakeAws) -> None:
    assert "a cluster cannot be created without nodes" in the_one(texts(nodes(count=0), "error", ""))
    assert "a cluster cannot be created without nodes" in the_one(offline(nodes(count=0), "warning"))


def test_template_that_cloudformation_refuses(aws: FakeAws) -> None:
    aws.fail("cloudformation", "ValidateTemplate", "ValidationError")
    assert "CloudFormation refuses it" in the_one(texts(chosen(REACHABLE), "error", "template"))


def test_expired_credentials(aws: FakeAws) -> None:
    aws.admin.expired = True
    with pytest.raises(InputError, match=r"credentials have expired.*aws sso login"):
        findings(chosen(REACHABLE), only="")


def test_default_zones_of_every_region_belong_to_it() -> None:
    for region in ("us-west-2", "ap-northeast-1", "cn-north-1"):
        assert all(zone.startswith(region) for zone in default_zones(region))
        assert default_zones(region, f"{region}d")[0] == f"{region}d"
