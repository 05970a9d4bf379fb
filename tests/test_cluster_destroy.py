"""`umiak cluster destroy` leaves nothing behind but what cluster.yaml says to keep, whatever stands in its way."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Set
from dataclasses import replace

import pytest

from tests.cluster_life import Killed, Life, everything_goes, left, life
from tests.cluster_options import chosen
from tests.fake_aws import FakeAws
from tests.fake_aws.front import LOST, LOST_AFTER
from tests.fake_aws.operations import Break
from umiak.cluster import stacks, template
from umiak.cluster.aws import Aws
from umiak.spec.cluster import ClusterSpec, Destroy

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]


def deployed(life: Life, given: ClusterSpec | None = None) -> None:
    """A cluster that is there; made the quick way, as an administrator does it."""
    assert life.aws.deploy("paddle", template.text(given or everything_goes())) == "CREATE_COMPLETE"


def sticks(aws: FakeAws, title: str, times: int = 1, reason: str = "Internal Failure") -> None:
    aws.stacks.operations.sticks[title] = Break(reason, times)


def fill_bucket(aws: FakeAws, others: Set[str] = frozenset()) -> None:
    """Versions, deletion marks and an upload that was never finished."""
    s3 = aws.client("s3")
    (bucket,) = {entry["Name"] for entry in s3.list_buckets(Prefix="paddle-")["Buckets"]} - others
    for number in range(3):
        s3.put_object(Bucket=bucket, Key="data/0", Body=str(number))
        s3.put_object(Bucket=bucket, Key=f"data/{number}", Body="x")
    s3.delete_object(Bucket=bucket, Key="data/0")
    s3.create_multipart_upload(Bucket=bucket, Key="half")


def push_image(aws: FakeAws, others: Set[str] = frozenset()) -> None:
    ecr = aws.client("ecr")
    (repository,) = {entry["repositoryName"] for entry in ecr.describe_repositories()["repositories"]} - others
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "layers": []}
    ecr.put_image(repositoryName=repository, imageManifest=json.dumps(manifest), imageTag="latest")


def protect(aws: FakeAws) -> None:
    aws.client("cloudformation").update_termination_protection(StackName="paddle", EnableTerminationProtection=True)
    aws.client("eks").update_cluster_config(name="paddle", deletionProtection=True)


def balancers(aws: FakeAws) -> None:
    for classic in (True, False):
        aws.balancers.inject("paddle", classic=classic)


# What is in the way, and what the first `destroy` says; "" where it gets through at once.
OBSTACLES: dict[str, tuple[Callable[[FakeAws], object], str]] = {
    "nothing": (lambda aws: None, ""),
    "protected twice": (protect, ""),
    "load balancers of Kubernetes": (balancers, ""),
    "disks of Kubernetes": (lambda aws: [aws.eks.inject_disk("paddle") for _ in range(2)], ""),
    "bucket with versions": (fill_bucket, ""),
    "images": (push_image, ""),
    "many forgotten interfaces": (lambda aws: setattr(aws.interfaces, "leaks", 3), ""),
    "endpoint and group of GuardDuty": (lambda aws: aws.guardduty.inject(), ""),
    "late logs": (lambda aws: setattr(aws.eks, "late_logs", True), ""),
    "control plane not removed once": (lambda aws: sticks(aws, "Cluster"), ""),
    "subnet not removed once": (
        lambda aws: sticks(aws, "PrivateSubnet1", 1, "DependencyViolation: has dependencies and cannot be deleted"),
        "",
    ),
    "three things not removed, twice": (
        lambda aws: [sticks(aws, t, 2) for t in ("Cluster", "Volume", "NatGateway1")],
        "",
    ),
    "one thing never removed": (lambda aws: sticks(aws, "NatGateway1", 99), "still there, though it should be gone"),
    "throttled": (lambda aws: aws.fail("*", "*", "Throttling", 4, skip=12), ""),
    "session ends": (
        lambda aws: aws.fail("cloudformation", "DescribeStackEvents", "ExpiredToken", 1, skip=8),
        "expired",
    ),
    "not allowed to delete nodes": (
        lambda aws: aws.fail("eks", "DeleteNodegroup", "AccessDeniedException", 1),
        "not allowed to do eks:DeleteNodegroup",
    ),
    "connection lost before the deletion": (lambda aws: aws.fail("cloudformation", "DeleteStack", LOST, 1), ""),
    "connection lost after the deletion": (lambda aws: aws.fail("cloudformation", "DeleteStack", LOST_AFTER, 1), ""),
    "network gone": (lambda aws: aws.fail("*", "*", LOST, 400, skip=60), "cannot reach AWS"),
    "answer to an emptied bucket lost": (
        lambda aws: (fill_bucket(aws), aws.fail("s3", "DeleteObjects", LOST_AFTER, 1)),
        "",
    ),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_whatever_is_in_the_way_the_same_command_removes_everything(life: Life, obstacle: str) -> None:
    deployed(life)
    arrange, said = OBSTACLES[obstacle]
    arrange(life.aws)
    code = life.destroy()
    assert (code == 0) == (said == ""), life.output
    assert said in life.output
    if code:
        life.aws.faults.clear()
        life.aws.stacks.operations.sticks.clear()
        mend(life)
        assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def mend(life: Life) -> None:
    """What a person would do by hand with what AWS would not let go of: here, the NAT gateway and what hangs on it."""
    if "NAT gateway nat-" not in life.output:
        return
    ec2 = life.aws.client("ec2")
    for gateway in ec2.describe_nat_gateways()["NatGateways"]:
        if gateway["State"] != "deleted":
            ec2.delete_nat_gateway(NatGatewayId=gateway["NatGatewayId"])


def test_data_is_kept_and_named_as_cluster_yaml_says(life: Life) -> None:
    life.write(chosen([("api", "one")]))
    deployed(life, chosen([("api", "one")]))
    fill_bucket(life.aws)
    push_image(life.aws)
    assert life.destroy() == 0, life.output
    assert {line.split()[0] for line in left(life.aws)} == {"volume", "bucket", "key"}
    assert "kept, as cluster.yaml says, and still paid for" in life.output
    assert "nothing else of paddle is left" in life.output
    life.write(everything_goes())
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_cluster_yaml_that_says_keep_wins_over_a_stack_that_would_delete(life: Life) -> None:
    deployed(life, everything_goes())
    fill_bucket(life.aws)
    push_image(life.aws)
    life.write(replace(everything_goes(), destroy=Destroy("keep", "keep", "keep", "keep")))
    assert life.destroy() == 0, life.output
    assert {line.split()[0] for line in left(life.aws)} == {"volume", "bucket", "repository", "key"}


def test_cluster_yaml_that_says_delete_wins_over_a_stack_that_would_keep(life: Life) -> None:
    deployed(life, chosen([("api", "one"), ("destroy", "nothing")]))
    fill_bucket(life.aws)
    push_image(life.aws)
    life.write(everything_goes())
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_only_the_exact_name_removes_anything(life: Life) -> None:
    deployed(life)
    life.patch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    life.patch.setattr("builtins.input", lambda _: "y")
    assert life.run("destroy") == 0
    assert "nothing was removed" in life.output
    assert life.status() == "CREATE_COMPLETE"
    life.patch.setattr("builtins.input", lambda _: "paddle")
    assert life.run("destroy") == 0
    life.assert_nothing_left()


def test_nobody_to_ask_is_an_error(life: Life) -> None:
    deployed(life)
    life.patch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert life.run("destroy") == 2
    assert "--yes" in life.output


def test_nothing_to_destroy_says_so(life: Life) -> None:
    assert life.destroy() == 0
    assert "there is nothing of paddle in us-west-2 to remove" in life.output


def test_creation_in_progress_can_be_destroyed(life: Life) -> None:
    life.kill_past("ExecuteChangeSet", 3)
    with pytest.raises(Killed):
        life.up()
    assert life.status() == "CREATE_IN_PROGRESS"
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_stack_that_goes_between_two_questions_is_gone(life: Life) -> None:
    deployed(life)
    life.aws.fail("cloudformation", "GetTemplateSummary", "ValidationError", 1)
    assert stacks.find(Aws("us-west-2"), "paddle") is None


def test_things_of_others_are_not_touched(life: Life) -> None:
    """The same names and tags, but of another cluster."""
    ec2 = life.aws.client("ec2")
    tags = [{"Key": "kubernetes.io/cluster/paddle-2", "Value": "owned"}, {"Key": "umiak:cluster", "Value": "paddle-2"}]
    marked = [{"ResourceType": "volume", "Tags": tags}]
    ec2.create_volume(AvailabilityZone="us-west-2a", Size=1, VolumeType="gp3", TagSpecifications=marked)
    where = {"CreateBucketConfiguration": {"LocationConstraint": "us-west-2"}}
    life.aws.client("s3").create_bucket(Bucket="paddle-bucket-of-mine", **where)
    life.aws.client("logs").create_log_group(logGroupName="/aws/eks/paddle/cluster-2")
    before = left(life.aws)
    deployed(life)
    assert life.destroy() == 0, life.output
    assert left(life.aws) == before


def accident(chance: random.Random, life: Life) -> None:
    """One of everything that can happen to a command, at a random moment."""
    titles = list(template.build(everything_goes())["Resources"])
    code = chance.choice(["Throttling", "ExpiredToken", "AccessDenied", "InternalFailure", LOST, LOST_AFTER])
    happening = chance.randrange(5)
    if happening == 0:
        life.kill_after(chance.randrange(2, 150))
    elif happening == 1:
        life.aws.stacks.operations.breaks[chance.choice(titles)] = Break("Internal Failure", 1, chance.random() < 0.5)
    elif happening == 2:
        for title in chance.sample(titles, 3):
            sticks(life.aws, title, chance.randrange(1, 3))
    else:
        life.aws.fail("*", "*", code, chance.randrange(1, 8), skip=chance.randrange(2, 150))


@pytest.mark.parametrize("seed", range(5))
def test_random_accidents_never_leave_anything_behind(life: Life, seed: int) -> None:
    chance = random.Random(seed)
    accident(chance, life)
    life.until_done(life.up)
    life.assert_up()
    life.aws.interfaces.leaks = chance.randrange(4)
    for arrange in chance.sample([fill_bucket, push_image, protect, balancers], 2):
        life.aws.faults.clear()
        arrange(life.aws)
    accident(chance, life)
    life.until_done(life.destroy)
    life.assert_nothing_left()
