"""What IAM would say, before it is asked in earnest: the printed policies are enough, what is missing is named, and a guess is
only a warning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster_options import chosen
from tests.fake_aws import FakeAws
from tests.test_cluster_validate import REACHABLE, become, findings, texts, the_one
from umiak.cluster import policy, template
from umiak.spec.cluster import ClusterSpec

pytest_plugins = ("tests.fake_aws.fixtures",)


def documents(given: ClusterSpec) -> dict[str, dict[str, Any]]:
    built = policy.documents(given, template.types(template.build(given)))
    return {name: json.loads(policy.text(items)) for name, items in built.items()}


@pytest.mark.parametrize("kind", ["user", "role"])
def test_rendered_policies_are_enough_to_validate_and_to_deploy(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    given = chosen(REACHABLE)
    person = getattr(aws.people, kind)("Deployer", *documents(given).values())
    become(person, monkeypatch)
    assert [item for item in findings(given) if item.level != "info"] == []
    assert aws.deploy("paddle", template.text(given), person) == "CREATE_COMPLETE"


def test_without_the_use_policy_the_one_who_deploys_is_warned_only(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = chosen(REACHABLE)
    held = documents(given)
    del held["use"]
    become(aws.people.user("Deployer", *held.values()), monkeypatch)
    (found,) = [item for item in findings(given, only="permissions") if item.level != "info"]
    assert (found.level, found.fix) == ("warning", "attach policy-use.json, which `umiak cluster render` writes")


def test_without_the_deploy_policies_the_plan_is_told_who_can(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    given = chosen(REACHABLE)
    become(aws.people.user("Reader", documents(given)["plan"], documents(given)["use"]), monkeypatch)
    found = findings(given, "error", only="permissions")
    assert [item.check for item in found] == ["permissions"] * 3
    for item, name in zip(found, ("network", "services", "roles"), strict=True):
        assert f"attach policy-deploy-{name}.json" in item.fix
    assert "have an administrator deploy template.yaml" in found[1].fix


def test_one_missing_permission_is_named(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    given = chosen(REACHABLE)
    person = aws.people.user("Almost", *documents(given).values())
    person.deny("eks:CreateNodegroup")
    become(person, monkeypatch)
    assert "arn:aws:iam::123456789012:user/Almost is not allowed to do eks:CreateNodegroup" in the_one(
        texts(given, "error", "permissions")
    )


GUARDRAIL = {
    "Statement": [
        {
            "Effect": "Deny",
            "NotAction": ["iam:*", "sts:*", "pricing:*"],
            "Resource": "*",
            "Condition": {"StringNotEquals": {"aws:RequestedRegion": ["us-west-2", "us-east-1"]}},
        }
    ]
}
FACTOR = {
    "Statement": [
        {
            "Effect": "Deny",
            "NotAction": ["sts:*", "iam:*"],
            "Resource": "*",
            "Condition": {"BoolIfExists": {"aws:MultiFactorAuthPresent": "false"}},
        }
    ]
}
OFFICE = {
    "Statement": [
        {
            "Effect": "Deny",
            "Action": "eks:CreateCluster",
            "Resource": "*",
            "Condition": {"StringNotEquals": {"aws:SourceIp": "203.0.113.7"}},
        }
    ]
}


def test_usual_guardrails_do_not_read_as_denied(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    given = chosen(REACHABLE)
    person = aws.people.user("Deployer", *documents(given).values())
    become(person, monkeypatch)
    person.attach(GUARDRAIL)
    assert [item.level for item in findings(given, only="permissions") if item.check == "permissions"] == ["info"]
    elsewhere = {"StringNotEquals": {"aws:RequestedRegion": "eu-west-1"}}
    person.attach({"Statement": [{"Effect": "Deny", "Action": "eks:*", "Resource": "*", "Condition": elsewhere}]})
    assert "not allowed to do eks:AssociateAccessPolicy" in texts(given, "error", "permissions")[-1]


def test_second_factor_and_what_a_simulation_cannot_know_are_warnings(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = chosen(REACHABLE)
    person = aws.people.user("Deployer", *documents(given).values())
    person.mfa = True
    become(person, monkeypatch)
    person.attach(FACTOR)
    (found,) = [item for item in findings(given, only="permissions") if item.level != "info"]
    assert (found.level, "only with a second factor (MFA)" in found.text) == ("warning", True)
    person.attach(OFFICE)
    found = next(item for item in findings(given, only="permissions") if item.level != "info")
    assert found.level == "warning"
    assert (
        "not allowed to do eks:CreateCluster, unless what the simulation does not know allows it (aws:SourceIp)"
        in found.text
    )


def test_check_that_may_not_be_made_says_so_and_the_others_go_on(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    given = chosen(REACHABLE)
    person = aws.people.user("Almost", *documents(given).values())
    person.deny("ec2:DescribeVpcs", "iam:SimulatePrincipalPolicy", "ec2:DescribeRegions")
    become(person, monkeypatch)
    found = findings(given, "warning")
    assert [(item.check, item.text[:11]) for item in found] == [
        ("region", "not checked"),
        ("network", "not checked"),
        ("quotas", "not checked"),
        ("permissions", "not checked"),
    ]
    assert "iam:SimulatePrincipalPolicy" in found[-1].text


def test_assumed_role_is_simulated_by_its_role_with_its_path(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    given = chosen(REACHABLE)
    path = "/aws-reserved/sso.amazonaws.com/"
    person = aws.people.role("AWSReservedSSO_Ops_1", *documents(given).values(), path=path)
    become(person, monkeypatch)
    (found,) = [item for item in findings(given, only="permissions") if item.check == "permissions"]
    assert (
        found.text
        == f"arn:aws:iam::123456789012:role{path}AWSReservedSSO_Ops_1 is allowed to do everything that is needed"
    )
    person.deny("iam:GetRole")
    (found,) = [item for item in findings(given, "warning", only="permissions") if item.check == "permissions"]
    assert "IAM does not find arn:aws:iam::123456789012:role/AWSReservedSSO_Ops_1" in found.text
