"""The fake AWS keeps its promise: what it does not model fails, and what it models makes the template's mistakes visible."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.cluster_options import chosen, spec
from tests.fake_aws import FakeAws
from tests.fake_aws.operations import Break
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


def deleted(aws: FakeAws) -> str:
    """Its status after a deletion that was given all the time it wants."""
    aws.client("cloudformation").delete_stack(StackName="paddle")
    aws.settle()
    return aws.stacks.stacks["us-west-2", "paddle"].status


def everything() -> str:
    return template.text(chosen([("destroy", "all")]))


def test_things_are_removed_in_the_order_of_their_dependence_and_a_forgotten_interface_stops_it(aws: FakeAws) -> None:
    assert aws.deploy("paddle", everything()) == "CREATE_COMPLETE"
    assert deleted(aws) == "DELETE_FAILED"
    stack = aws.stacks.stacks["us-west-2", "paddle"]
    stuck = {made.title: made.reason for made in stack.made.values() if made.status == "DELETE_FAILED"}
    assert set(stuck) == {"NodeSecurityGroup", "PrivateSubnet1"}
    assert "DependencyViolation" in stuck["PrivateSubnet1"]
    (left,) = aws.interfaces.all
    aws.client("ec2").delete_network_interface(NetworkInterfaceId=left)
    # In use by that interface, EKS's own group was left behind, and keeps the VPC.
    assert deleted(aws) == "DELETE_FAILED"
    assert [made.title for made in stack.made.values() if made.status == "DELETE_FAILED"] == ["Vpc"]
    ends = [event.title for event in stack.events if event.status == "DELETE_COMPLETE"]
    assert ends.index("Nodes") < ends.index("VpcCni") < ends.index("Cluster")


@pytest.mark.parametrize("obstacle", ["protected stack", "protected cluster", "full bucket", "nodes of others"])
def test_what_aws_would_not_delete_is_not_deleted_here(aws: FakeAws, obstacle: str) -> None:
    aws.interfaces.leaks = 0
    aws.deploy("paddle", everything())
    if obstacle == "protected stack":
        aws.client("cloudformation").update_termination_protection(StackName="paddle", EnableTerminationProtection=True)
        with pytest.raises(ClientError, match="TerminationProtection is enabled"):
            aws.client("cloudformation").delete_stack(StackName="paddle")
        return
    if obstacle == "protected cluster":
        aws.client("eks").update_cluster_config(name="paddle", deletionProtection=True)
    if obstacle == "full bucket":
        (bucket,) = aws.client("s3").list_buckets()["Buckets"]
        aws.client("s3").put_object(Bucket=bucket["Name"], Key="kept", Body="x")
        aws.client("s3").delete_object(Bucket=bucket["Name"], Key="kept")
    if obstacle == "nodes of others":
        aws.eks.node_groups["paddle", "by hand"] = {"clusterName": "paddle", "nodegroupName": "by hand"}
    assert deleted(aws) == "DELETE_FAILED"


def test_failed_creation_is_rolled_back_and_takes_unused_data_with_it(aws: FakeAws) -> None:
    aws.interfaces.leaks = 0
    aws.stacks.operations.breaks["CoreDns"] = Break("stayed DEGRADED")
    cloud = aws.client("cloudformation")
    which = {"StackName": "paddle", "ChangeSetName": "mine"}
    admin = [{"ParameterKey": "AdminArn", "ParameterValue": aws.admin.principal}]
    body, capable = template.text(spec()), ["CAPABILITY_NAMED_IAM"]
    cloud.create_change_set(**which, ChangeSetType="CREATE", TemplateBody=body, Parameters=admin, Capabilities=capable)
    aws.settle()
    cloud.execute_change_set(**which)
    aws.clock.advance(60)
    events = cloud.describe_stack_events(StackName="paddle")["StackEvents"]
    assert events[0]["Timestamp"] > events[-1]["Timestamp"], "newest first"
    aws.settle()
    assert cloud.describe_stacks(StackName="paddle")["Stacks"][0]["StackStatus"] == "ROLLBACK_COMPLETE"
    assert not aws.client("efs").describe_file_systems()["FileSystems"]


def test_tagging_api_is_a_minute_late_in_both_directions(aws: FakeAws) -> None:
    def shown() -> int:
        wanted = [{"Key": "umiak:cluster", "Values": ["paddle"]}]
        found = aws.client("resourcegroupstaggingapi").get_resources(TagFilters=wanted)
        return len(found["ResourceTagMappingList"])

    tags = [{"ResourceType": "volume", "Tags": [{"Key": "umiak:cluster", "Value": "paddle"}]}]
    ec2 = aws.client("ec2")
    made = ec2.create_volume(AvailabilityZone="us-west-2a", Size=1, VolumeType="gp3", TagSpecifications=tags)
    assert shown() == 0
    for _ in range(4):
        aws.clock.advance(30)
        shown()
    assert shown() == 1
    ec2.delete_volume(VolumeId=made["VolumeId"])
    aws.clock.advance(30)
    assert shown() == 1
    for _ in range(4):
        aws.clock.advance(30)
        shown()
    assert shown() == 0
