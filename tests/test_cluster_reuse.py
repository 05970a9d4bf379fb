"""What an earlier cluster kept, or what cluster.yaml names, is used in the place of new ones, and outlives the next cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cluster_life import REGION, Life, everything_goes, life
from tests.cluster_options import chosen
from tests.fake_aws.people import ACCOUNT
from tests.test_cluster_ownership import data, keeping, kept_before
from umiak.cluster import reuse, template
from umiak.cluster.things import Thing
from umiak.spec import yamlfile
from umiak.spec.cluster import ClusterSpec, Existing

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]


def names(life: Life) -> dict[str, str]:
    """Field → name, of what is there."""
    found = data(life.aws)
    kinds = {"volume": "fs-", "bucket": "paddle-bucket-", "images": "paddle-images-"}
    named = {field: name for field, start in kinds.items() for name in found if name.startswith(start)}
    (key,) = found - set(named.values())
    return named | {"key": key}


def using(life: Life) -> ClusterSpec:
    there = names(life)
    arn = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{there.pop('key')}"
    return replace(everything_goes(), existing=Existing(**there), kms_key_arn=arn)


def written(life: Life) -> ClusterSpec:
    return yamlfile.load(life.directory / "cluster.yaml", ClusterSpec)


def test_kept_data_is_used_again_and_survives_a_cluster_that_deletes_everything(life: Life) -> None:
    before = kept_before(life)
    life.write(everything_goes())
    assert life.run("up", "--yes", "--reuse") == 0, life.output
    life.assert_up()
    assert data(life.aws) == before, "a second volume, bucket, repository or key was made"
    assert written(life).existing == using(life).existing
    outputs = life.aws.client("cloudformation").describe_stacks(StackName="paddle")["Stacks"][0]["Outputs"]
    found = {entry["OutputKey"]: entry["OutputValue"] for entry in outputs}
    assert found["Bucket"] in before
    assert found["VolumeHandle"].partition("::")[0] in before
    assert found["ImageRepository"].partition("/")[2] in before
    assert life.up() == 0
    assert "matches cluster.yaml" in life.output
    assert life.run("status") == 0
    assert names(life)["volume"] in life.output
    assert life.destroy() == 0, life.output
    assert data(life.aws) == before


def test_up_asks_and_a_no_makes_new_ones(life: Life) -> None:
    before = kept_before(life)
    life.write(everything_goes())
    answers = iter(["n", "y"])
    life.patch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    life.patch.setattr("builtins.input", lambda _: next(answers))
    assert life.run("up") == 0, life.output
    for name in before:
        assert name in life.output
    assert len(data(life.aws)) == 8
    assert written(life).existing == Existing()


def test_without_anybody_to_ask_new_ones_are_made_and_the_flag_is_named(life: Life) -> None:
    kept_before(life)
    life.write(everything_goes())
    assert life.up() == 0, life.output
    assert "nothing is reused; --reuse uses it" in life.output


def test_file_edited_by_hand_is_not_rewritten(life: Life) -> None:
    kept_before(life)
    path = life.directory / "cluster.yaml"
    text = "# my own words\n" + path.read_text()
    path.write_text(text)
    assert life.run("up", "--yes", "--reuse") == 2
    assert f"volume: {names(life)['volume']}" in life.output
    assert path.read_text() == text
    assert life.status() is None


def test_creation_that_fails_leaves_existing_data_alone(life: Life) -> None:
    from tests.fake_aws.operations import Break

    before = kept_before(life)
    life.write(everything_goes())
    life.aws.stacks.operations.breaks["Nodes"] = Break("Internal Failure", 1)
    assert life.run("up", "--yes", "--reuse") == 1
    assert data(life.aws) == before
    assert life.up() == 0, life.output
    assert data(life.aws) == before


WRONG = {
    "volume": (Existing(volume="fs-0123456789abcdef0"), "there is no file system fs-0123456789abcdef0 in us-west-2"),
    "bucket": (Existing(bucket="paddle-bucket-nowhere"), "there is no bucket paddle-bucket-nowhere in us-west-2"),
    "images": (Existing(images="paddle-images-nowhere"), "there is no image repository paddle-images-nowhere"),
}


@pytest.mark.parametrize("field", WRONG)
def test_what_does_not_exist_is_refused_before_anything_is_made(life: Life, field: str) -> None:
    existing, said = WRONG[field]
    life.write(replace(everything_goes(), existing=existing))
    assert life.up() == 2
    assert said in life.output
    assert f"correct existing.{field}" in life.output
    life.assert_nothing_left()


def test_another_key_is_refused_before_anything_is_made(life: Life) -> None:
    kept_before(life)
    right = using(life)
    life.write(replace(right, kms_key_arn=None))
    assert life.up() == 2
    assert f"write kms_key_arn: {right.kms_key_arn}" in life.output
    assert life.status() is None


def test_bucket_of_another_region_is_refused(life: Life) -> None:
    where = {"CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}}
    life.aws.client("s3", region="eu-west-1").create_bucket(Bucket="mine-far-away", **where)
    life.write(replace(everything_goes(), existing=Existing(bucket="mine-far-away")))
    assert life.up() == 2
    assert "there is no bucket mine-far-away in us-west-2" in life.output


def test_volume_that_is_mounted_elsewhere_or_not_encrypted_is_refused(life: Life) -> None:
    kept_before(life)
    right = using(life)
    ec2, efs = life.aws.client("ec2"), life.aws.client("efs")
    vpc = ec2.create_vpc(CidrBlock="10.99.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.99.0.0/20", AvailabilityZone="us-west-2a")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="mine", Description="mine", VpcId=vpc)["GroupId"]
    efs.create_mount_target(FileSystemId=right.existing.volume, SubnetId=subnet, SecurityGroups=[group])
    life.write(right)
    assert life.up() == 2
    assert "EFS allows one VPC at a time" in life.output
    plain = efs.create_file_system(CreationToken="plain", Encrypted=False)["FileSystemId"]
    life.write(replace(right, existing=replace(right.existing, volume=plain)))
    assert life.up() == 2
    assert f"the file system {plain} is not encrypted" in life.output


def test_existing_volume_in_the_place_of_a_cluster_s_own_is_refused(life: Life) -> None:
    kept_before(life)
    right = using(life)
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    before = data(life.aws)
    life.write(right)
    assert life.up() == 2
    assert "in place of the old" in life.output
    assert data(life.aws) == before


def test_of_several_the_last_cluster_s_is_offered() -> None:
    volumes = [Thing("file system", "fs-1", earlier=True), Thing("file system", "fs-2")]
    buckets = [Thing("bucket", "old-1", earlier=True), Thing("bucket", "old-2", earlier=True)]
    found = reuse.choose([*volumes, *buckets, Thing("key", "k", earlier=True)])
    assert (found.volume, found.bucket, found.images, found.key) == ("fs-2", None, None, "k")


def test_template_that_uses_existing_data_declares_none(life: Life) -> None:
    spec = replace(keeping(), existing=Existing(volume="fs-01234567", bucket="my-bucket", images="my-images"))
    built = template.build(
        replace(spec, kms_key_arn=f"arn:aws:kms:{REGION}:{ACCOUNT}:key/" + "1234abcd-12ab-34cd-56ef-" + 12 * "0")
    )
    assert not {"Volume", "Bucket", "BucketTlsOnly", "Images", "Key"} & set(built["Resources"])
    assert built["Resources"]["VolumeMount1"]["Properties"]["FileSystemId"] == "fs-01234567"
    assert chosen([("api", "one")]).existing == Existing()
