"""`umiak cluster destroy` removes what is its own: not a namesake's in another region, nor what an earlier cluster kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from moto.ecr.models import ecr_backends
from moto.efs.models import efs_backends
from moto.kms.models import kms_backends
from moto.s3.models import s3_backends

from tests.cluster_life import Killed, Life, everything_goes, left, life
from tests.cluster_options import chosen
from tests.fake_aws import FakeAws
from tests.fake_aws.people import ACCOUNT
from umiak.cluster import template
from umiak.spec.cluster import ClusterSpec, Destroy, default_zones

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]

OLD = Path(__file__).parent / "templates" / "0.1.0.yaml"
FAR = "eu-west-1"


def keeping() -> ClusterSpec:
    return chosen([("api", "one"), ("destroy", "nothing")])


def data(aws: FakeAws, region: str = "us-west-2") -> set[str]:
    """Names of everything in a region that holds data, from the fake itself."""
    keys = [key for key in kms_backends[ACCOUNT][region].keys.values() if key.description.startswith("umiak ")]
    return {
        *efs_backends[ACCOUNT][region].file_systems_by_id,
        *ecr_backends[ACCOUNT][region].repositories,
        *(bucket.name for bucket in s3_backends[ACCOUNT]["aws"].buckets.values() if bucket.region_name == region),
        *(key.id for key in keys if key.key_state != "PendingDeletion"),
    }


def kept_before(life: Life) -> set[str]:
    """What a cluster of the same name kept, long enough ago for the tagging API to have noticed."""
    life.write(keeping())
    assert life.aws.deploy("paddle", template.text(keeping())) == "CREATE_COMPLETE"
    assert life.destroy() == 0, life.output
    life.aws.clock.advance(600)
    found = data(life.aws)
    assert len(found) == 4
    return found


def test_namesake_in_another_region_keeps_its_data(life: Life) -> None:
    far = replace(everything_goes(), region=FAR, zones=default_zones(FAR))
    assert life.aws.deploy("paddle", template.text(far), region=FAR) == "CREATE_COMPLETE"
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    s3 = life.aws.client("s3", region=FAR)
    (bucket,) = [name for name in data(life.aws, FAR) if "bucket" in name]
    s3.put_object(Bucket=bucket, Key="data/0", Body="x")
    before = data(life.aws, FAR)
    life.aws.balancers.inject("paddle", classic=True, region=FAR)
    assert life.destroy() == 0, life.output
    assert data(life.aws) == set()
    assert data(life.aws, FAR) == before
    assert bucket not in life.output
    assert [entry["Key"] for entry in s3.list_object_versions(Bucket=bucket)["Versions"]] == ["data/0"]
    assert [balancer.region for balancer in life.aws.balancers.all.values()] == [FAR]
    life.write(far)
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_what_an_earlier_cluster_kept_outlives_the_next_one(life: Life) -> None:
    before = kept_before(life)
    life.write(everything_goes())
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    assert life.destroy() == 0, life.output
    assert data(life.aws) == before
    for name in before:
        assert f"{name}, kept by an earlier paddle" in life.output
    assert "`destroy --earlier` removes it too" in life.output
    assert life.run("destroy", "--yes", "--earlier") == 0, life.output
    life.assert_nothing_left()


def test_flag_for_earlier_clusters_still_keeps_what_cluster_yaml_keeps(life: Life) -> None:
    before = kept_before(life)
    life.write(replace(keeping(), destroy=Destroy("keep", "delete", "keep", "keep")))
    assert life.run("destroy", "--yes", "--earlier") == 0, life.output
    assert {name for name in before if "bucket" not in name} == data(life.aws)


def test_what_the_last_cluster_kept_can_be_removed_later_until_aws_forgets_its_stack(life: Life) -> None:
    before = kept_before(life)
    life.write(everything_goes())
    life.aws.clock.advance(91 * 86400)
    assert life.destroy() == 0, life.output
    assert data(life.aws) == before, "nothing tells any more whose it is"
    assert life.run("destroy", "--yes", "--earlier") == 0, life.output
    life.assert_nothing_left()


@pytest.mark.parametrize("fates", ["all", "nothing"])
def test_destroy_killed_while_the_stack_goes_is_resumed_for_its_own_data_only(life: Life, fates: str) -> None:
    """The stack itself is gone when the second run begins, and what it was made to keep is still to be removed."""
    before = kept_before(life)
    life.write(everything_goes())
    made = chosen([("api", "one"), ("destroy", fates)])
    assert life.aws.deploy("paddle", template.text(made)) == "CREATE_COMPLETE"
    life.aws.clock.advance(600)
    with life.patch.context() as patch:
        dying = Life(life.aws, life.directory, patch)
        dying.kill_past("DeleteStack", 1)
        with pytest.raises(Killed):
            dying.destroy()
    life.aws.settle()
    assert life.status() is None
    assert life.destroy() == 0, life.output
    assert data(life.aws) == before


def test_destroy_killed_after_the_stack_is_gone_is_resumed(life: Life) -> None:
    life.write(everything_goes())
    assert life.aws.deploy("paddle", template.text(keeping())) == "CREATE_COMPLETE"
    life.aws.clock.advance(600)
    life.aws.fail("efs", "DeleteFileSystem", "InternalServerError", 5)
    assert life.destroy() == 1
    assert life.status() is None
    assert len(data(life.aws)) == 4
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_stack_of_umiak_0_1_0_gets_the_tag_without_a_replacement_and_is_destroyed(life: Life) -> None:
    assert life.aws.deploy("paddle", OLD.read_text()) == "CREATE_COMPLETE"
    before = data(life.aws)
    life.write(chosen([("api", "one")]))
    assert life.up() == 0, life.output
    assert data(life.aws) == before
    assert "replaced by a new one" not in life.output
    stack = life.aws.stacks.stacks["us-west-2", "paddle"]
    efs = life.aws.client("efs").describe_file_systems()["FileSystems"][0]
    assert {"Key": "umiak:stack", "Value": stack.id} in efs["Tags"]
    life.write(everything_goes())
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_stack_of_umiak_0_1_0_is_destroyed_without_the_tag(life: Life) -> None:
    assert life.aws.deploy("paddle", OLD.read_text()) == "CREATE_COMPLETE"
    life.aws.clock.advance(600)
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_disk_that_is_older_than_the_cluster_is_a_namesakes(life: Life) -> None:
    life.aws.eks.inject_disk("paddle")
    before = left(life.aws)
    life.aws.clock.advance(60)
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    life.aws.eks.inject_disk("paddle")
    assert life.destroy() == 0, life.output
    assert left(life.aws) == before


def test_load_balancer_outside_our_network_is_a_namesakes(life: Life) -> None:
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    mine = life.aws.balancers.inject("paddle", classic=False)
    other = life.aws.balancers.inject("paddle", classic=True)
    other.vpc = "vpc-of-somebody-else"
    life.aws.interfaces.release(f"elb:{other.name}")
    assert life.destroy() == 0, life.output
    assert list(life.aws.balancers.all) == [other.name]
    assert mine.name not in life.aws.balancers.all


def test_control_plane_of_that_name_that_is_not_ours_keeps_its_nodes_and_logs(life: Life) -> None:
    life.aws.eks.clusters["paddle"] = {"name": "paddle", "region": "us-west-2", "tags": {}}
    life.aws.eks.node_groups["paddle", "theirs"] = {"clusterName": "paddle", "nodegroupName": "theirs"}
    life.aws.client("logs").create_log_group(logGroupName="/aws/eks/paddle/cluster")
    assert life.destroy() == 0, life.output
    assert "there is nothing of paddle in us-west-2 to remove" in life.output
    assert ("paddle", "theirs") in life.aws.eks.node_groups


def test_killed_while_it_asks_whose_things_are_nothing_is_removed(life: Life) -> None:
    kept_before(life)
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    for calls in range(1, 8):
        with life.patch.context() as patch:
            again = Life(life.aws, life.directory, patch)
            again.kill_after(calls)
            with pytest.raises(Killed):
                again.destroy()
    assert len(data(life.aws)) == 8
