"""Who holds the printed policies deploys a cluster and works with it, and cannot make of that anything more.

Each way up is tried and refused, and beside it the nearest thing that a deployer must be able to do is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.iam.aws_managed_policies import aws_managed_policies_data

from tests.cluster_options import chosen, spec
from tests.fake_aws import FakeAws, evaluation
from tests.fake_aws.people import ACCOUNT, Person
from umiak.cluster import boundary, policy, template
from umiak.cluster.template.roles import JOBS, MANAGED

pytest_plugins = ("tests.fake_aws.fixtures",)
GIVEN = chosen([("api", "one"), ("account", "given")])
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/paddle-us-west-2-boundary"
EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
OURS = "paddle-us-west-2-data"


def documents() -> dict[str, dict[str, Any]]:
    built = policy.documents(GIVEN, template.types(template.build(GIVEN)))
    return {name: json.loads(policy.text(items)) for name, items in built.items()}


@pytest.fixture
def deployer(aws: FakeAws) -> Person:
    """Holds the printed policies; the administrator has made the boundary, and somebody else has an instance and a role."""
    aws.client("iam").create_policy(PolicyName="paddle-us-west-2-boundary", PolicyDocument=boundary.text(GIVEN))
    return aws.people.user("Deployer", *documents().values())


def trusting(person: Person) -> str:
    statement = {"Effect": "Allow", "Principal": {"AWS": person.arn}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def denied(act: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as caught:
        act()
    error = caught.value.response["Error"]
    assert error["Code"] in ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"), error
    return str(error["Message"])


def test_administrator_role_cannot_be_made_under_any_name_or_without_the_boundary(
    aws: FakeAws, deployer: Person
) -> None:
    iam, trust = aws.client("iam", deployer), trusting(deployer)
    bound = {"PermissionsBoundary": BOUNDARY}
    denied(lambda: iam.create_role(RoleName="paddle-admin", AssumeRolePolicyDocument=trust, **bound))
    denied(lambda: iam.create_role(RoleName="paddle-us-west-2-mine", AssumeRolePolicyDocument=trust, **bound))
    denied(lambda: iam.create_role(RoleName=OURS, AssumeRolePolicyDocument=trust))
    other = aws.client("iam").create_policy(PolicyName="wide", PolicyDocument=json.dumps(EVERYTHING))["Policy"]["Arn"]
    denied(lambda: iam.create_role(RoleName=OURS, AssumeRolePolicyDocument=trust, PermissionsBoundary=other))
    iam.create_role(RoleName=OURS, AssumeRolePolicyDocument=trust, **bound)
    denied(lambda: iam.put_role_permissions_boundary(RoleName=OURS, PermissionsBoundary=other))
    iam.put_role_permissions_boundary(RoleName=OURS, **bound)


def test_role_of_ours_with_every_permission_written_into_it_can_do_no_more_than_the_boundary(
    aws: FakeAws, deployer: Person
) -> None:
    """An inline policy's content is nothing IAM can look at, and the trust is the deployer's own choice."""
    iam = aws.client("iam", deployer)
    iam.create_role(RoleName=OURS, AssumeRolePolicyDocument=trusting(deployer), PermissionsBoundary=BOUNDARY)
    iam.put_role_policy(RoleName=OURS, PolicyName="all", PolicyDocument=json.dumps(EVERYTHING))
    session = aws.identity.become(OURS)
    theirs = aws.client("ec2").run_instances(ImageId="ami-12c6146b", InstanceType="m6i.large", MinCount=1, MaxCount=1)
    instance = theirs["Instances"][0]["InstanceId"]
    name = {"RoleName": "root", "AssumeRolePolicyDocument": trusting(deployer)}
    denied(lambda: aws.client("iam", session).create_role(**name))
    denied(lambda: aws.client("iam", session).delete_role_permissions_boundary(RoleName=OURS))
    denied(lambda: aws.client("ec2", session).terminate_instances(InstanceIds=[instance]))
    tags = [{"Key": "umiak:cluster", "Value": "paddle"}]
    denied(lambda: aws.client("ec2", session).create_tags(Resources=[instance], Tags=tags))
    aws.client("s3").create_bucket(
        Bucket="others", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}, ObjectOwnership="ObjectWriter"
    )
    denied(lambda: aws.client("s3", session).get_object(Bucket="others", Key="secret"))
    aws.client("ec2", session).describe_vpcs()


def test_policy_of_aws_that_is_not_on_the_list_cannot_be_attached(aws: FakeAws, deployer: Person) -> None:
    iam = aws.client("iam", deployer)
    iam.create_role(RoleName=OURS, AssumeRolePolicyDocument=trusting(deployer), PermissionsBoundary=BOUNDARY)
    for name in ("AdministratorAccess", "IAMFullAccess", "AmazonS3FullAccess"):
        denied(lambda name=name: iam.attach_role_policy(RoleName=OURS, PolicyArn=f"arn:aws:iam::aws:policy/{name}"))  # type: ignore[misc]
    for job in JOBS:
        for name in MANAGED[job]:
            iam.attach_role_policy(RoleName=OURS, PolicyArn=f"arn:aws:iam::aws:policy/{name}")
    # Neither to a role that the boundary is not on, nor to the deployer.
    aws.client("iam").create_role(RoleName="paddle-us-west-2-nodes", AssumeRolePolicyDocument=trusting(deployer))
    good = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
    denied(lambda: iam.attach_role_policy(RoleName="paddle-us-west-2-nodes", PolicyArn=good))
    denied(lambda: iam.put_role_policy(RoleName="paddle-us-west-2-nodes", PolicyName="x", PolicyDocument="{}"))
    denied(lambda: iam.attach_user_policy(UserName="Deployer", PolicyArn=good))
    denied(lambda: iam.put_user_policy(UserName="Deployer", PolicyName="x", PolicyDocument=json.dumps(EVERYTHING)))


def test_whom_a_role_trusts_cannot_be_changed(aws: FakeAws, deployer: Person) -> None:
    assert aws.deploy("paddle", template.text(GIVEN), deployer) == "CREATE_COMPLETE"
    iam = aws.client("iam", deployer)
    aws.client("iam").create_role(RoleName="boss", AssumeRolePolicyDocument=trusting(aws.admin))
    for job in JOBS:
        name = f"paddle-us-west-2-{job}"
        denied(lambda name=name: iam.update_assume_role_policy(RoleName=name, PolicyDocument=trusting(deployer)))  # type: ignore[misc]
        iam.get_role(RoleName=name)
    denied(lambda: iam.update_assume_role_policy(RoleName="boss", PolicyDocument=trusting(deployer)))
    denied(
        lambda: aws.client("sts", deployer).assume_role(
            RoleArn=f"arn:aws:iam::{ACCOUNT}:role/boss", RoleSessionName="mine"
        )
    )


def test_role_cannot_be_passed_to_another_service_nor_anothers_role_to_ours(aws: FakeAws, deployer: Person) -> None:
    assert aws.deploy("paddle", template.text(GIVEN), deployer) == "CREATE_COMPLETE"
    ours = f"arn:aws:iam::{ACCOUNT}:role/{OURS}"
    for service in ("lambda.amazonaws.com", "cloudformation.amazonaws.com", "glue.amazonaws.com"):
        assert deployer.decides("iam:PassRole", ours, {"iam:PassedToService": [service]}) == "implicitDeny"
    assert deployer.decides("iam:PassRole", ours, {"iam:PassedToService": ["pods.eks.amazonaws.com"]}) == "allowed"
    boss = aws.client("iam").create_role(RoleName="boss", AssumeRolePolicyDocument=trusting(aws.admin))["Role"]["Arn"]
    account = {"clusterName": "paddle", "namespace": "default", "serviceAccount": "mine"}
    eks = aws.client("eks", deployer)
    assert "iam:PassRole" in denied(lambda: eks.create_pod_identity_association(**account, roleArn=boss))
    eks.create_pod_identity_association(**account, roleArn=ours)


def test_strangers_things_cannot_be_tagged_as_ours_and_then_deleted(aws: FakeAws, deployer: Person) -> None:
    admin, ec2 = aws.client("ec2"), aws.client("ec2", deployer)
    theirs = admin.run_instances(ImageId="ami-12c6146b", InstanceType="m6i.large", MinCount=1, MaxCount=1)
    instance = theirs["Instances"][0]["InstanceId"]
    vpc = admin.create_vpc(CidrBlock="10.99.0.0/16")["Vpc"]["VpcId"]
    tags = [{"Key": "umiak:cluster", "Value": "paddle"}]
    for thing in (instance, vpc):
        denied(lambda thing=thing: ec2.create_tags(Resources=[thing], Tags=tags))  # type: ignore[misc]
    denied(lambda: ec2.terminate_instances(InstanceIds=[instance]))
    denied(lambda: ec2.delete_vpc(VpcId=vpc))
    volume = aws.client("efs").create_file_system(CreationToken="theirs", Encrypted=True)["FileSystemId"]
    efs = aws.client("efs", deployer)
    denied(lambda: efs.tag_resource(ResourceId=volume, Tags=tags))
    denied(lambda: efs.delete_file_system(FileSystemId=volume))
    key = aws.client("kms").create_key(Description="theirs", Policy=json.dumps(EVERYTHING))["KeyMetadata"]["KeyId"]
    kms = aws.client("kms", deployer)
    denied(lambda: kms.tag_resource(KeyId=key, Tags=[{"TagKey": "umiak:cluster", "TagValue": "paddle"}]))
    denied(lambda: kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=7))
    item = {"ResourceType": "AWS::KMS::Key", "LogicalResourceId": "Key", "ResourceIdentifier": {"KeyId": key}}
    plan = {"StackName": "paddle", "ChangeSetName": "x", "TemplateBody": "{}"}
    stacks = aws.client("cloudformation", deployer)
    denied(lambda: stacks.create_change_set(**plan, ChangeSetType="IMPORT", ResourcesToImport=[item]))
    made = ec2.create_vpc(CidrBlock="10.98.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}])
    ec2.create_tags(Resources=[made["Vpc"]["VpcId"]], Tags=[{"Key": "Name", "Value": "more"}])
    ec2.delete_vpc(VpcId=made["Vpc"]["VpcId"])


def test_boundary_can_be_neither_removed_nor_edited_even_by_who_holds_more(aws: FakeAws, deployer: Person) -> None:
    iam = aws.client("iam", deployer)
    iam.create_role(RoleName=OURS, AssumeRolePolicyDocument=trusting(deployer), PermissionsBoundary=BOUNDARY)
    deployer.attach(EVERYTHING)
    denied(lambda: iam.delete_role_permissions_boundary(RoleName=OURS))
    wide = json.dumps(EVERYTHING)
    denied(lambda: iam.create_policy_version(PolicyArn=BOUNDARY, PolicyDocument=wide, SetAsDefault=True))
    denied(lambda: iam.delete_policy(PolicyArn=BOUNDARY))
    iam.get_policy(PolicyArn=BOUNDARY)
    # The same by somebody without our denials is done: it is they that stop it.
    aws.client("iam").create_policy_version(PolicyArn=BOUNDARY, PolicyDocument=wide, SetAsDefault=True)


# What AWS's policies allow and the boundary does not, on purpose: this cluster has no use for it, and a deployer could abuse it.
WITHHELD = {
    "autoscaling:UpdateAutoScalingGroup",
    "ec2:AttachVolume",
    "ec2:CreateRoute",
    "ec2:CreateVolume",
    "ec2:DeleteRoute",
    "ec2:DeleteVolume",
    "ec2:DetachVolume",
    "ec2:ModifyInstanceAttribute",
    "ec2:ModifyVolume",
    "ssm:GetParameter",
    "ssm:GetParameters",
}


def test_boundary_leaves_the_roles_what_they_are_for() -> None:
    managed = json.loads(aws_managed_policies_data)
    limits = json.loads(boundary.text(GIVEN))
    has = {
        "aws:RequestedRegion": ["us-west-2"],
        "iam:AWSServiceName": ["elasticloadbalancing.amazonaws.com"],
        "kms:ViaService": ["s3.us-west-2.amazonaws.com"],
    }
    interface = f"arn:aws:ec2:us-west-2:{ACCOUNT}:network-interface/eni-1"
    linked = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/elasticloadbalancing.amazonaws.com/x"
    refused = set()
    for policies in MANAGED.values():
        for name in policies:
            for statement in managed[name.rpartition("/")[2]]["Document"]["Statement"]:
                actions = statement["Action"]
                for action in [actions] if isinstance(actions, str) else actions:
                    about = linked if action.startswith("iam:") else interface
                    if evaluation.decide([EVERYTHING], limits, action, about, has) != "allowed":
                        refused.add(action)
    assert refused <= WITHHELD
    bucket = "arn:aws:s3:::paddle-bucket-1"
    for action, about in (
        ("s3:ListBucket", bucket),
        ("s3:GetObject", f"{bucket}/a"),
        ("kms:Decrypt", f"arn:aws:kms:us-west-2:{ACCOUNT}:key/1"),
    ):
        assert evaluation.decide([EVERYTHING], limits, action, about, has) == "allowed", action
    assert (
        evaluation.decide([EVERYTHING], limits, "ec2:DescribeVpcs", "*", {"aws:RequestedRegion": ["eu-west-1"]})
        != "allowed"
    )


def test_daily_work_needs_the_use_policy_and_gets_no_further(aws: FakeAws) -> None:
    """Push an image, upload a file in parts and read it back; nobody else's registry and bucket, and nothing is deleted."""
    assert aws.deploy("paddle", template.text(spec())) == "CREATE_COMPLETE"
    made = aws.stacks.stacks["us-west-2", "paddle"].made
    bucket, repository = made["Bucket"].physical, made["Images"].physical
    person = aws.people.user("Worker", documents()["use"])
    ecr, s3 = aws.client("ecr", person), aws.client("s3", person)
    assert ecr.get_authorization_token()["authorizationData"]
    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []})
    ecr.put_image(repositoryName=repository, imageManifest=manifest, imageTag="latest")
    assert ecr.describe_images(repositoryName=repository)["imageDetails"]
    assert ecr.batch_get_image(repositoryName=repository, imageIds=[{"imageTag": "latest"}])["images"]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="reviews/a")["UploadId"]
    which = {"Bucket": bucket, "Key": "reviews/a", "UploadId": upload}
    part = s3.upload_part(**which, PartNumber=1, Body=b"five")["ETag"]
    s3.complete_multipart_upload(**which, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    assert s3.get_object(Bucket=bucket, Key="reviews/a")["Body"].read() == b"five"
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
    assert aws.client("eks", person).describe_cluster(name="paddle")
    assert aws.client("cloudformation", person).describe_stacks(StackName="paddle")
    key = f"arn:aws:kms:us-west-2:{ACCOUNT}:key/1"
    via = {"kms:ViaService": ["s3.us-west-2.amazonaws.com"], "aws:ResourceTag/umiak:cluster": ["paddle"]}
    assert person.decides("kms:GenerateDataKey", key, via) == "allowed"
    assert (
        person.decides("kms:GenerateDataKey", key, {**via, "kms:ViaService": ["ebs.us-west-2.amazonaws.com"]})
        != "allowed"
    )
    aws.client("ecr").create_repository(
        repositoryName="others",
        imageTagMutability="MUTABLE",
        imageScanningConfiguration={"scanOnPush": True},
        encryptionConfiguration={"encryptionType": "AES256"},
    )
    denied(lambda: ecr.put_image(repositoryName="others", imageManifest=manifest, imageTag="latest"))
    denied(lambda: s3.put_object(Bucket="others", Key="a", Body=b""))
    denied(lambda: s3.delete_object(Bucket=bucket, Key="reviews/a"))
    denied(lambda: ecr.delete_repository(repositoryName=repository, force=True))


@pytest.mark.parametrize(
    "statement",
    [
        {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"DateGreaterThan": {"aws:CurrentTime": "1"}}},
        {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringEquals": {"aws:SourceVpc": "v"}}},
        {"Effect": "Allow", "Action": "*", "NotResource": "*"},
    ],
)
def test_what_the_evaluator_does_not_know_it_does_not_allow(statement: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="not modelled"):
        evaluation.check({"Statement": [statement]})


@pytest.mark.parametrize(
    ("condition", "has", "holds"),
    [
        ({"StringEquals": {"aws:RequestedRegion": "a"}}, {"aws:RequestedRegion": ["a"]}, True),
        ({"StringEquals": {"aws:RequestedRegion": "a"}}, {}, False),
        ({"StringEqualsIfExists": {"aws:RequestedRegion": "a"}}, {}, True),
        ({"StringNotEquals": {"aws:RequestedRegion": ["a", "b"]}}, {"aws:RequestedRegion": ["b"]}, False),
        ({"StringNotEquals": {"aws:RequestedRegion": "a"}}, {}, True),
        ({"StringLike": {"iam:PolicyARN": "arn:*:policy/x"}}, {"iam:PolicyARN": ["arn:a:b:policy/x"]}, True),
        ({"ArnLike": {"iam:PolicyARN": "arn:aws:iam::*:policy/x"}}, {"iam:PolicyARN": ["arn:aws:iam::1:policy/x"]}, True),
        ({"ArnLike": {"iam:PolicyARN": "arn:aws:*:policy/x"}}, {"iam:PolicyARN": ["arn:aws:iam::1:policy/x"]}, False),
        ({"Null": {"aws:MultiFactorAuthPresent": "true"}}, {}, True),
        ({"Null": {"aws:MultiFactorAuthPresent": "false"}}, {}, False),
        ({"Bool": {"aws:MultiFactorAuthPresent": "true"}}, {"aws:MultiFactorAuthPresent": ["true"]}, True),
        ({"BoolIfExists": {"aws:MultiFactorAuthPresent": "true"}}, {"aws:MultiFactorAuthPresent": ["false"]}, False),
        ({"ForAnyValue:StringEquals": {"aws:CalledVia": "x"}}, {"aws:CalledVia": ["y", "x"]}, True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": "x"}}, {"aws:TagKeys": ["y", "x"]}, False),
    ],
)  # fmt: skip
def test_conditions_are_evaluated_as_iam_documents_them(
    condition: dict[str, Any], has: dict[str, list[str]], holds: bool
) -> None:
    body = {"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Condition": condition}]}
    evaluation.check(body)
    assert (evaluation.decide([body], None, "s3:GetObject", "x", has) == "allowed") == holds
    body["Statement"][0]["Effect"] = "Deny"
    refused = evaluation.decide([body, EVERYTHING], None, "s3:GetObject", "x", has)
    assert (refused == "explicitDeny") == holds
