"""EKS: control planes, and the table of all that EKS answers; `nodegroups` and `addons` are the rest of it.

The API server is the fake's own small one, unless a test sets `endpoint` and `certificate` to a real one's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError
from moto.ec2.models import ec2_backends

from tests.fake_aws.addons import Addons
from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.nodegroups import NodeGroups
from tests.fake_aws.people import ACCOUNT

# Version → (status, end of standard support), as DescribeClusterVersions tells it.
VERSIONS = {
    "1.37": ("STANDARD_SUPPORT", datetime(2027, 12, 2)),
    "1.36": ("STANDARD_SUPPORT", datetime(2027, 8, 2)),
    "1.35": ("STANDARD_SUPPORT", datetime(2027, 3, 27)),
    "1.33": ("EXTENDED_SUPPORT", datetime(2026, 7, 29)),
}
# Seconds until a control plane is active.
CLUSTER_SECONDS = 500.0
# The logs of a control plane may arrive so long after its end, and make their group again.
LATE = 90.0
NO_CONTROL_PLANE = {"use1-az3", "usw1-az2", "cac1-az3"}


class Eks(NodeGroups, Addons):
    """In one region: a name may be used once in each."""

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        return {("eks", name): self._in_its_region(name) for name in self.table()}

    def _in_its_region(self, name: str) -> Callable[[Call], Any]:
        return lambda call: self.fake.eks_in(call.region).table()[name](call)

    def table(self) -> dict[str, Callable[[Call], Any]]:
        table: dict[str, tuple[Callable[[Call], Any], set[str]]] = {
            "AssociateAccessPolicy": (self.associate, {"clusterName", "principalArn", "policyArn", "accessScope"}),
            "CreateAccessEntry": (self.create_access, {"clusterName", "principalArn", "tags"}),
            "CreateAddon": (
                self.create_addon,
                {
                    "clusterName",
                    "addonName",
                    "resolveConflicts",
                    "configurationValues",
                    "podIdentityAssociations",
                    "tags",
                },
            ),
            "CreateCluster": (
                self.create_cluster,
                {
                    "name",
                    "version",
                    "roleArn",
                    "accessConfig",
                    "bootstrapSelfManagedAddons",
                    "encryptionConfig",
                    "kubernetesNetworkConfig",
                    "logging",
                    "resourcesVpcConfig",
                    "upgradePolicy",
                    "tags",
                },
            ),
            "CreateNodegroup": (
                self.create_nodes,
                {
                    "clusterName",
                    "nodegroupName",
                    "nodeRole",
                    "subnets",
                    "amiType",
                    "capacityType",
                    "instanceTypes",
                    "launchTemplate",
                    "scalingConfig",
                    "updateConfig",
                    "version",
                    "tags",
                },
            ),
            "CreatePodIdentityAssociation": (
                self.create_identity,
                {"clusterName", "namespace", "serviceAccount", "roleArn", "tags"},
            ),
            "DeleteAccessEntry": (self.delete_access, {"clusterName", "principalArn"}),
            "DeleteAddon": (self.delete_addon, {"clusterName", "addonName"}),
            "DeleteCluster": (self.delete_cluster, {"name"}),
            "DeleteNodegroup": (self.delete_nodes, {"clusterName", "nodegroupName"}),
            "DeletePodIdentityAssociation": (self.delete_identity, {"clusterName", "associationId"}),
            "DescribeAddon": (self.describe_addon, {"clusterName", "addonName"}),
            "DescribeAddonVersions": (self.addon_versions, {"addonName", "kubernetesVersion"}),
            "UpdateAddon": (
                self.update_addon,
                {"clusterName", "addonName", "addonVersion", "resolveConflicts"},
            ),
            "DescribeCluster": (self.describe, {"name"}),
            "DescribeNodegroup": (self.describe_nodes, {"clusterName", "nodegroupName"}),
            "DescribeClusterVersions": (self.versions, set()),
            "ListClusters": (self.list, set()),
            "ListNodegroups": (self.list_nodes, {"clusterName"}),
            "UpdateClusterConfig": (self.update_cluster, {"name", "resourcesVpcConfig", "deletionProtection"}),
            "UpdateClusterVersion": (self.update_version, {"name", "version"}),
            "UpdateNodegroupConfig": (self.scale, {"clusterName", "nodegroupName", "scalingConfig"}),
            "UpdateNodegroupVersion": (
                self.renew,
                {"clusterName", "nodegroupName", "launchTemplate", "version", "releaseVersion"},
            ),
        }
        return {name: _checked(handler, known) for name, (handler, known) in table.items()}

    def versions(self, call: Call) -> dict[str, Any]:
        return {
            "clusterVersions": [
                {"clusterVersion": name, "versionStatus": status, "endOfStandardSupportDate": ends}
                for name, (status, ends) in VERSIONS.items()
            ]
        }

    def list(self, call: Call) -> dict[str, Any]:
        return {"clusters": [name for name, cluster in self.clusters.items() if cluster["region"] == call.region]}

    def describe(self, call: Call) -> dict[str, Any]:
        cluster = self._cluster(call.params["name"])
        status = "ACTIVE" if self.fake.clock.seconds >= cluster.get("ready", 0) else "CREATING"
        return {"cluster": cluster | {"status": status}}

    def create_cluster(self, call: Call) -> dict[str, Any]:
        params = call.params
        if params["name"] in self.clusters:
            raise AwsFault("ResourceInUseException", f"Cluster already exists with name: {params['name']}")
        if VERSIONS.get(params["version"], ("",))[0] != "STANDARD_SUPPORT":
            raise AwsFault("InvalidParameterException", f"unsupported Kubernetes version {params['version']}")
        ec2 = self._ec2(call)
        subnets = ec2.describe_subnets(SubnetIds=params["resourcesVpcConfig"]["subnetIds"])["Subnets"]
        bad = [subnet["AvailabilityZone"] for subnet in subnets if subnet["AvailabilityZoneId"] in NO_CONTROL_PLANE]
        if bad:
            raise AwsFault(
                "UnsupportedAvailabilityZoneException", f"Cannot create cluster because {bad[0]} cannot hold it"
            )
        if len({subnet["AvailabilityZone"] for subnet in subnets}) < 2:
            raise AwsFault("InvalidParameterException", "Subnets specified must be in at least two different AZs")
        self._trusts(params["roleArn"], "eks.amazonaws.com")
        name = params["name"]
        group = ec2.create_security_group(
            GroupName=f"eks-cluster-sg-{name}-1", Description="EKS created security group", VpcId=subnets[0]["VpcId"]
        )["GroupId"]
        self.clusters[name] = {
            "name": name,
            "arn": f"arn:aws:eks:{call.region}:{ACCOUNT}:cluster/{name}",
            "createdAt": datetime.now(UTC).replace(tzinfo=None),
            "version": params["version"],
            "endpoint": self.endpoint or self.fake.kubernetes.endpoint,
            "certificateAuthority": {"data": self.certificate or self.fake.kubernetes.certificate},
            "deletionProtection": False,
            "ready": self.fake.clock.seconds + CLUSTER_SECONDS,
            "roleArn": params["roleArn"],
            "resourcesVpcConfig": params["resourcesVpcConfig"]
            | {"clusterSecurityGroupId": group, "vpcId": subnets[0]["VpcId"]},
            "tags": params.get("tags", {}),
            "region": call.region,
        }
        for subnet in subnets:
            self.fake.interfaces.add(
                call.region, subnet["SubnetId"], (group,), f"Amazon EKS {name}", f"eks:{call.region}:{name}"
            )
        return {"cluster": self.clusters[name]}

    def update_cluster(self, call: Call) -> dict[str, Any]:
        cluster = self._cluster(call.params["name"])
        cluster["resourcesVpcConfig"] = cluster["resourcesVpcConfig"] | call.params.get("resourcesVpcConfig", {})
        if "deletionProtection" in call.params:
            cluster["deletionProtection"] = call.params["deletionProtection"]
        return {"update": {"id": "fake", "status": "InProgress"}}

    def update_version(self, call: Call) -> dict[str, Any]:
        cluster, wanted = self._cluster(call.params["name"]), call.params["version"]
        now, then = (int(version.partition(".")[2]) for version in (cluster["version"], wanted))
        # EKS user guide, "Update existing cluster": one minor version at a time, never back, and no nodes far behind.
        if then != now + 1:
            raise AwsFault(
                "InvalidParameterException",
                f"Unsupported Kubernetes minor version update from {cluster['version']} to {wanted}",
            )
        cluster["version"] = wanted
        return {"update": {"id": "fake", "status": "InProgress"}}

    def delete_cluster(self, call: Call) -> dict[str, Any]:
        name = call.params["name"]
        cluster, ec2 = self._cluster(name), self._ec2(call)
        if any(owner == name for owner, _ in self.node_groups):
            raise AwsFault("ResourceInUseException", "Cluster has nodegroups attached")
        if cluster["deletionProtection"]:
            raise AwsFault("InvalidRequestException", "Cluster cannot be deleted while deletion protection is enabled")
        del self.clusters[name]
        if self is self.fake.eks:
            self.fake.kubernetes.objects.clear()
        for table in (self.addons, self.access, self.identities):
            for key in [key for key in table if key[0] == name]:
                del table[key]  # type: ignore[attr-defined]
        self.fake.interfaces.release(f"eks:{call.region}:{name}")
        # In use by a node's forgotten interface, its group stays behind, and nobody is told.
        with contextlib.suppress(ClientError):
            ec2.delete_security_group(GroupId=cluster["resourcesVpcConfig"]["clusterSecurityGroupId"])
        if self.late_logs:
            logs, group = self.fake.client("logs", region=call.region, via="eks"), f"/aws/eks/{name}/cluster"
            self.fake.clock.after(LATE, lambda: logs.create_log_group(logGroupName=group))
        return {"cluster": {"name": name, "status": "DELETING"}}

    def inject_disk(self, cluster: str, region: str = "us-west-2") -> str:
        """A disk that Kubernetes made for a claim."""
        made = self.fake.client("ec2", region=region, via="eks").create_volume(
            AvailabilityZone=f"{region}a",
            Size=20,
            VolumeType="gp3",
            TagSpecifications=[
                {"ResourceType": "volume", "Tags": [{"Key": f"kubernetes.io/cluster/{cluster}", "Value": "owned"}]}
            ],
        )
        name = str(made["VolumeId"])
        ec2_backends[ACCOUNT][region].volumes[name].create_time = self.fake.clock.now()
        return name


def _checked(handler: Callable[[Call], Any], known: set[str]) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        unknown = set(call.params) - known - {"clientRequestToken", "maxResults", "nextToken"}
        assert not unknown, f"{call}: parameters that are not modelled: {unknown}"
        return handler(call)

    return run
