"""The fake AWS keeps its promise: what it does not model fails, and what it models makes the template's mistakes visible."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.cluster_options import chosen, spec
from tests.fake_aws import FakeAws
from umiak.cluster import template
from umiak.spec.yamlfile import to_yaml

pytest_plugins = ("tests.fake_aws.fixtures",)


@pytest.fixture
def refused(aws: FakeAws) -> Iterator[list[str]]:
    """What the fake refused; looked at by the test itself, so that the fixture does not fail it."""
    yield aws.unmodelled
    aws.unmodelled.clear()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda aws: aws.client("lambda").list_functions(), "lambda ListFunctions is not modelled"),
        (lambda aws: aws.client("ec2").describe_hosts(), "ec2 DescribeHosts is not modelled"),
        (lambda aws: aws.client("ec2").describe_vpcs(DryRun=True), "parameters that are not modelled: DryRun"),
        (
            lambda aws: aws.client("ec2").describe_volumes(Filters=[{"Name": "size", "Values": ["1"]}]),
            "filters that are not modelled: size",
        ),
        (lambda aws: aws.client("eks").describe_cluster_versions(defaultOnly=True), "not modelled: {'defaultOnly'}"),
        (lambda aws: aws.client("ec2", region="us-west-9").describe_vpcs(), "there is no region us-west-9"),
        (
            lambda aws: aws.client("cloudformation").describe_stacks(StackName="x", NextToken="y"),
            "not modelled: {'NextToken'}",
        ),
    ],
)
def test_call_that_is_not_modelled_fails_and_is_remembered(
    aws: FakeAws, refused: list[str], call: Callable[[FakeAws], Any], said: str
) -> None:
    with pytest.raises(ClientError, match="NotModelled"):
        call(aws)
    assert said in refused[0]


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    built = template.build(spec())
    change(built["Resources"])
    return to_yaml(built)


def properties(title: str, **more: Any) -> Callable[[dict[str, Any]], object]:
    return lambda resources: resources[title]["Properties"].update(more)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.update(Queue={"Type": "AWS::SQS::Queue"}), "the resource type AWS::SQS::Queue is not modelled"),
        (
            properties("Vpc", InstanceTenancy="default"),
            "AWS::EC2::VPC: properties that are not modelled: InstanceTenancy",
        ),
        (
            lambda r: r["Bucket"]["Properties"]["OwnershipControls"]["Rules"][0].update(Colour="blue"),
            "AWS::S3::Bucket.OwnershipControls.Rules: properties that are not modelled: Colour",
        ),
        (properties("Cluster", DeletionProtection=True), "properties that are not modelled: DeletionProtection"),
        (properties("Vpc", CidrBlock={"Fn::Select": [0, ["10.20.0.0/16"]]}), "not modelled: {'Fn::Select'}"),
    ],
)
def test_type_property_or_function_that_is_not_modelled_fails_the_stack(
    aws: FakeAws, refused: list[str], change: Any, said: str
) -> None:
    # A function is refused before the stack is begun, the others while it is made.
    with contextlib.suppress(ClientError):
        assert aws.deploy("paddle", changed(change)) == "CREATE_FAILED"
    assert any(said in line for line in refused), refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r["CoreDns"].pop("DependsOn"), "coredns stayed DEGRADED"),
        (lambda r: r["Nodes"].update(DependsOn=["KubeProxy"]), "no network plugin"),
        (lambda r: r["VpcCni"].pop("DependsOn"), "the pod identity agent is not installed"),
        (
            lambda r: r["NodeTemplate"]["Properties"]["LaunchTemplateData"]["SecurityGroupIds"].pop(0),
            "the launch template lacks the cluster's group",
        ),
        (properties("PrivateSubnet2", AvailabilityZone="us-west-2a"), "at least two different AZs"),
        (
            lambda r: r["NodeRole"]["Properties"]["ManagedPolicyArns"].append("arn:aws:iam::aws:policy/Misspelt"),
            "Misspelt does not exist",
        ),
        (properties("Cluster", Version="1.33"), "unsupported Kubernetes version 1.33"),
    ],
)
def test_mistake_in_the_template_fails_as_it_would_on_aws(aws: FakeAws, change: Any, said: str) -> None:
    assert aws.deploy("paddle", changed(change)) == "CREATE_FAILED"
    assert said in first_failure(aws)[1]


def first_failure(aws: FakeAws) -> tuple[str, str]:
    """(title, reason) of what failed by itself; the others were only cancelled."""
    made = aws.stacks.stacks["us-west-2", "paddle"].made.values()
    (failed,) = [m for m in made if m.status == "CREATE_FAILED" and m.reason != "Resource creation cancelled"]
    return failed.title, failed.reason


@pytest.mark.parametrize(
    "choices",
    [
        [],
        [("nat", "none"), ("spot", "yes"), ("types", "several"), ("ssh", "key"), ("api", "two")],
        [("nat", "per-zone"), ("zones", "three"), ("types", "arm"), ("destroy", "all"), ("admin", "named")],
    ],
    ids=["default", "cheapest", "widest"],
)
def test_template_can_be_created(aws: FakeAws, choices: Any) -> None:
    given = chosen(choices)
    assert aws.deploy("paddle", template.text(given)) == "CREATE_COMPLETE"
    (cluster,) = aws.eks.clusters.values()
    assert cluster["version"] == given.kubernetes.version
    assert aws.eks.access["paddle", aws.admin.principal]["policies"]
    tagged = [{"Name": "tag:eks:cluster-name", "Values": ["paddle"]}]
    reservations = aws.client("ec2").describe_instances(Filters=tagged)["Reservations"]
    assert sum(len(reservation["Instances"]) for reservation in reservations) == given.nodes.count


def test_without_nodes_the_template_cannot_be_created(aws: FakeAws) -> None:
    assert aws.deploy("paddle", template.text(chosen([("count", "none")]))) == "CREATE_FAILED"


def test_permission_the_deployer_lacks_fails_the_resource(aws: FakeAws) -> None:
    person = aws.people.user("Almost", {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
    person.deny("elasticfilesystem:CreateAccessPoint")
    assert aws.deploy("paddle", template.text(spec()), person) == "CREATE_FAILED"
    title, reason = first_failure(aws)
    assert title == "VolumeAccess"
    assert "elasticfilesystem:CreateAccessPoint" in reason
