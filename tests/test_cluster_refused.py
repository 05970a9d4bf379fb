"""What would fail on AWS only after a while, or lose something, is known before anything is made or changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cluster_life import Life, everything_goes, life
from tests.cluster_options import spec
from tests.fake_aws.people import ADMIN
from umiak.cluster import stacks, template
from umiak.cluster.aws import Aws
from umiak.errors import InputError

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]


def test_another_first_zone_is_refused_before_the_change(life: Life) -> None:
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    before = life.aws.stacks.stacks["us-west-2", "paddle"].body
    life.write(replace(everything_goes(), zones=("us-west-2b", "us-west-2a")))
    assert life.up() == 2
    assert "zones and network.cidr of a cluster that exists cannot be changed" in life.output
    assert life.aws.stacks.stacks["us-west-2", "paddle"].body == before
    assert life.status() == "CREATE_COMPLETE"


def test_what_early_validation_objects_to_is_told(life: Life) -> None:
    life.aws.stacks.early = {"Bucket": "Resource of type AWS::S3::Bucket with that name already exists"}
    assert life.up() == 1
    assert "Bucket: Resource of type AWS::S3::Bucket with that name already exists" in life.output
    life.aws.stacks.early.clear()
    assert life.up() == 0, life.output


def test_early_validation_is_told_also_to_who_may_not_ask_for_its_events(life: Life) -> None:
    life.aws.stacks.early = {"Bucket": "exists"}
    life.aws.fail("cloudformation", "DescribeEvents", "AccessDenied")
    assert life.up() == 1
    assert "CloudFormation cannot plan this" in life.output


def change(title: str, replacement: str, cause: str | None = None, recreation: str = "Always") -> dict[str, object]:
    detail = {"Target": {"RequiresRecreation": recreation}, **({"CausingEntity": cause} if cause is not None else {})}
    return {
        "ResourceChange": {
            "Action": "Modify",
            "LogicalResourceId": title,
            "ResourceType": "AWS::X",
            "Replacement": replacement,
            "Details": [detail],
        }
    }


@pytest.mark.parametrize(
    ("changes", "replaced"),
    [
        ([change("Key", "False"), change("Volume", "Conditional", "Key.Arn")], set()),
        ([change("Key", "True"), change("Volume", "Conditional", "Key.Arn")], {"Key", "Volume"}),
        (
            [change("Key", "True"), change("A", "Conditional", "Key.Arn"), change("B", "Conditional", "A.Id")],
            {"Key", "A", "B"},
        ),
        ([change("Volume", "Conditional")], {"Volume"}),
        ([change("Volume", "Conditional", "")], {"Volume"}),
    ],
    ids=["cause stays", "cause goes", "chain", "no cause named", "empty cause"],
)
def test_conditional_replacement_counts_unless_its_cause_stays(changes: list[object], replaced: set[str]) -> None:
    found = stacks._changes({"Changes": changes})
    assert {title for _, title, _, anew in found if anew} == replaced


def test_tags_of_the_key_replace_nothing_that_it_encrypts(life: Life) -> None:
    """CloudFormation calls volume, bucket and control plane "Conditional" then."""
    old = template.build(everything_goes())
    tags = old["Resources"]["Key"]["Properties"]["Tags"]
    old["Resources"]["Key"]["Properties"]["Tags"] = [tag for tag in tags if tag["Key"] != "umiak:stack"]
    from umiak.spec.yamlfile import to_yaml

    assert life.aws.deploy("paddle", to_yaml(old)) == "CREATE_COMPLETE"
    assert life.up() == 0, life.output
    assert "replaced" not in life.output


def test_session_that_ec2_calls_expired_is_one_to_renew(life: Life) -> None:
    life.aws.fail("ec2", "DescribeVpcs", "RequestExpired")
    with pytest.raises(InputError, match="have expired; renew them"):
        Aws("us-west-2").pages("ec2", "DescribeVpcs", "Vpcs")


def test_administrator_whose_path_is_unknown_is_not_guessed(life: Life) -> None:
    person = life.aws.people.role("Deployer", ADMIN, path="/team/")
    person.deny("iam:GetRole")
    for name, value in person.environment.items():
        life.patch.setenv(name, value)
    life.aws.fail("iam", "GetRole", "AccessDenied")
    base = everything_goes()
    life.write(replace(base, kubernetes=replace(base.kubernetes, admin_arn=None)))
    assert life.up() == 2
    assert "kubernetes.admin_arn" in life.output
    assert life.status() in (None, "REVIEW_IN_PROGRESS")


@pytest.mark.parametrize(
    ("region", "service"), [("cn-north-1", "ec2.amazonaws.com.cn"), ("us-gov-west-1", "ec2.amazonaws.com")]
)
def test_nodes_role_trusts_ec2_by_its_name_there(region: str, service: str) -> None:
    built = template.build(spec(region=region))
    trust = built["Resources"]["NodeRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]
    assert trust["Principal"] == {"Service": service}
