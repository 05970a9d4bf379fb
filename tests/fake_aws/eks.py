"""EKS: clusters, node groups, add-ons, access entries and pod identities, with the mistakes AWS would not forgive.

The API server is the fake's own small one, unless a test sets `endpoint` and `certificate` to a real one's.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.people import ACCOUNT

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

# Version → (status, end of standard support), as DescribeClusterVersions tells it.
VERSIONS = {
    "1.37": ("STANDARD_SUPPORT", datetime(2028, 1, 20)),
    "1.36": ("STANDARD_SUPPORT", datetime(2027, 9, 20)),
    "1.35": ("STANDARD_SUPPORT", datetime(2027, 3, 27)),
    "1.33": ("EXTENDED_SUPPORT", datetime(2026, 7, 29)),
}
# Seconds until a control plane or a node group is active, and until a node group that is deleted by its API is gone.
CLUSTER_SECONDS, NODES_SECONDS, GONE_SECONDS = 500.0, 120.0, 200.0
# The logs of a control plane may arrive so long after its end, and make their group again.
LATE = 90.0
NO_CONTROL_PLANE = {"use1-az3", "usw1-az2", "cac1-az3"}
# Add-ons, and whether they are pods that need a node.
ADDONS = {
    "eks-pod-identity-agent": False,
    "vpc-cni": False,
    "kube-proxy": False,
    "coredns": True,
    "aws-efs-csi-driver": True,
}


class Eks:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self.clusters: dict[str, dict[str, Any]] = {}
        self.node_groups: dict[tuple[str, str], dict[str, Any]] = {}
        self.addons: dict[tuple[str, str], dict[str, Any]] = {}
        self.access: dict[tuple[str, str], dict[str, Any]] = {}
        self.identities: dict[tuple[str, str, str], dict[str, Any]] = {}
        # Where kubectl is sent; None is the fake's own API server.
        self.endpoint: str | None = None
        self.certificate: str | None = None
        self.late_logs = False
        self._numbers = itertools.count(1)

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
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
            "DescribeCluster": (self.describe, {"name"}),
            "DescribeNodegroup": (self.describe_nodes, {"clusterName", "nodegroupName"}),
            "DescribeClusterVersions": (self.versions, set()),
            "ListClusters": (self.list, set()),
            "ListNodegroups": (self.list_nodes, {"clusterName"}),
            "UpdateClusterConfig": (self.update_cluster, {"name", "resourcesVpcConfig", "deletionProtection"}),
            "UpdateClusterVersion": (self.update_version, {"name", "version"}),
            "UpdateNodegroupConfig": (self.scale, {"clusterName", "nodegroupName", "scalingConfig"}),
            "UpdateNodegroupVersion": (self.renew, {"clusterName", "nodegroupName", "launchTemplate"}),
        }
        return {("eks", name): _checked(handler, known) for name, (handler, known) in table.items()}

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
            self.fake.interfaces.add(call.region, subnet["SubnetId"], (group,), f"Amazon EKS {name}", f"eks:{name}")
        return {"cluster": self.clusters[name]}

    def create_nodes(self, call: Call) -> dict[str, Any]:
        params = call.params
        cluster = self._cluster(params["clusterName"])
        ec2 = self._ec2(call)
        self._trusts(params["nodeRole"], "ec2.amazonaws.com")
        template = ec2.describe_launch_template_versions(
            LaunchTemplateId=params["launchTemplate"]["id"], Versions=[params["launchTemplate"]["version"]]
        )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        group = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]
        if group not in template["SecurityGroupIds"]:
            raise AwsFault(
                "InvalidRequestException", "Nodes would not join: the launch template lacks the cluster's group"
            )
        if (cluster["name"], "vpc-cni") not in self.addons:
            raise AwsFault("NodeCreationFailure", "Unhealthy nodes in the kubernetes cluster: no network plugin")
        subnets = ec2.describe_subnets(SubnetIds=params["subnets"])["Subnets"]
        offers = ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": params["instanceTypes"]}]
        )["InstanceTypeOfferings"]
        for subnet, kind in itertools.product(subnets, params["instanceTypes"]):
            if not any((o["Location"], o["InstanceType"]) == (subnet["AvailabilityZone"], kind) for o in offers):
                raise AwsFault("InvalidParameterException", f"{kind} is not offered in {subnet['AvailabilityZone']}")
        scaling = params["scalingConfig"]
        if scaling["maxSize"] < 1 or not scaling["minSize"] <= scaling["desiredSize"] <= scaling["maxSize"]:
            raise AwsFault("InvalidParameterException", f"bad scalingConfig {scaling}")
        made = params | {"ready": self.fake.clock.seconds + NODES_SECONDS, "template": template, "subnet": subnets[0]}
        self.node_groups[cluster["name"], params["nodegroupName"]] = made
        if scaling["desiredSize"]:
            self._launch(ec2, made, call.region, scaling["desiredSize"])
        return {
            "nodegroup": {"clusterName": cluster["name"], "nodegroupName": params["nodegroupName"], "status": "ACTIVE"}
        }

    def _launch(self, ec2: Any, params: dict[str, Any], region: str, count: int) -> None:
        template, subnet = params["template"], params["subnet"]
        managed = {"eks:cluster-name": params["clusterName"], "eks:nodegroup-name": params["nodegroupName"]}
        specifications = []
        for entry in template["TagSpecifications"]:
            # moto does not tag the interfaces of an instance.
            if entry["ResourceType"] != "network-interface":
                tags = {tag["Key"]: tag["Value"] for tag in entry["Tags"]} | (
                    managed if entry["ResourceType"] == "instance" else {}
                )
                specifications.append(
                    {"ResourceType": entry["ResourceType"], "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
                )
        spot = {"InstanceMarketOptions": {"MarketType": "spot"}} if params["capacityType"] == "SPOT" else {}
        made = ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType=params["instanceTypes"][0],
            MinCount=count,
            MaxCount=count,
            SubnetId=subnet["SubnetId"],
            BlockDeviceMappings=template["BlockDeviceMappings"],
            TagSpecifications=specifications,
            **spot,
        )
        groups = tuple(template["SecurityGroupIds"])
        for instance in made["Instances"]:
            name = instance["InstanceId"]
            self.fake.interfaces.add(region, subnet["SubnetId"], groups, f"aws-K8S-{name}", name)

    def instances(self, cluster: str, group: str | None = None, region: str = "us-west-2") -> list[dict[str, Any]]:
        """The machines of a cluster that run, or of one of its groups."""
        filters = [
            {"Name": "tag:eks:cluster-name", "Values": [cluster]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        answer = self.fake.client("ec2", region=region, via="eks").describe_instances(Filters=filters)
        found = [instance for entry in answer["Reservations"] for instance in entry["Instances"]]
        return [
            item for item in found if group is None or {"Key": "eks:nodegroup-name", "Value": group} in item["Tags"]
        ]

    def _end(self, ec2: Any, names: list[str]) -> None:
        if names:
            ec2.terminate_instances(InstanceIds=names)
            for name in names:
                self.fake.interfaces.strand(name)

    def describe_nodes(self, call: Call) -> dict[str, Any]:
        found = self._group(call)
        status = found.get("leaving") or ("ACTIVE" if self.fake.clock.seconds >= found["ready"] else "CREATING")
        names = ("clusterName", "nodegroupName", "scalingConfig", "capacityType", "instanceTypes")
        return {"nodegroup": {name: found[name] for name in names} | {"status": status, "health": {"issues": []}}}

    def list_nodes(self, call: Call) -> dict[str, Any]:
        self._cluster(call.params["clusterName"])
        return {"nodegroups": [group for owner, group in self.node_groups if owner == call.params["clusterName"]]}

    def scale(self, call: Call) -> dict[str, Any]:
        found, ec2 = self._group(call), self._ec2(call)
        wanted = call.params["scalingConfig"]
        if wanted["maxSize"] < 1 or not wanted["minSize"] <= wanted["desiredSize"] <= wanted["maxSize"]:
            raise AwsFault("InvalidParameterException", f"bad scalingConfig {wanted}")
        running = self.instances(found["clusterName"], found["nodegroupName"], call.region)
        found["scalingConfig"] = wanted
        missing = wanted["desiredSize"] - len(running)
        if missing > 0:
            self._launch(ec2, found, call.region, missing)
        else:
            self._end(ec2, [item["InstanceId"] for item in running[: -missing or None]] if missing else [])
        return {"update": {"id": "fake", "status": "InProgress"}}

    def renew(self, call: Call) -> dict[str, Any]:
        """Other machines from another version of the launch template."""
        found, ec2 = self._group(call), self._ec2(call)
        version = call.params["launchTemplate"]
        answer = ec2.describe_launch_template_versions(LaunchTemplateId=version["id"], Versions=[version["version"]])
        found["template"] = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        running = self.instances(found["clusterName"], found["nodegroupName"], call.region)
        if running:
            self._launch(ec2, found, call.region, len(running))
            self._end(ec2, [item["InstanceId"] for item in running])
        return {"update": {"id": "fake", "status": "InProgress"}}

    def delete_nodes(self, call: Call) -> dict[str, Any]:
        """CloudFormation has waited already; who asks EKS itself is told that it has begun."""
        found, ec2 = self._group(call), self._ec2(call)
        key = (found["clusterName"], found["nodegroupName"])

        def go() -> None:
            if self.node_groups.pop(key, None):
                self._end(ec2, [item["InstanceId"] for item in self.instances(*key, call.region)])

        if call.via:
            go()
        elif "leaving" not in found:
            found["leaving"] = "DELETING"
            self.fake.clock.after(GONE_SECONDS, go)
        return {"nodegroup": {"clusterName": key[0], "nodegroupName": key[1], "status": "DELETING"}}

    def update_cluster(self, call: Call) -> dict[str, Any]:
        cluster = self._cluster(call.params["name"])
        cluster["resourcesVpcConfig"] = cluster["resourcesVpcConfig"] | call.params.get("resourcesVpcConfig", {})
        if "deletionProtection" in call.params:
            cluster["deletionProtection"] = call.params["deletionProtection"]
        return {"update": {"id": "fake", "status": "InProgress"}}

    def update_version(self, call: Call) -> dict[str, Any]:
        self._cluster(call.params["name"])["version"] = call.params["version"]
        return {"update": {"id": "fake", "status": "InProgress"}}

    def delete_cluster(self, call: Call) -> dict[str, Any]:
        name = call.params["name"]
        cluster, ec2 = self._cluster(name), self._ec2(call)
        if any(owner == name for owner, _ in self.node_groups):
            raise AwsFault("ResourceInUseException", "Cluster has nodegroups attached")
        if cluster["deletionProtection"]:
            raise AwsFault("InvalidRequestException", "Cluster cannot be deleted while deletion protection is enabled")
        del self.clusters[name]
        for table in (self.addons, self.access, self.identities):
            for key in [key for key in table if key[0] == name]:
                del table[key]  # type: ignore[attr-defined]
        self.fake.interfaces.release(f"eks:{name}")
        # In use by a node's forgotten interface, its group stays behind, and nobody is told.
        with contextlib.suppress(ClientError):
            ec2.delete_security_group(GroupId=cluster["resourcesVpcConfig"]["clusterSecurityGroupId"])
        if self.late_logs:
            logs, group = self.fake.client("logs", region=call.region, via="eks"), f"/aws/eks/{name}/cluster"
            self.fake.clock.after(LATE, lambda: logs.create_log_group(logGroupName=group))
        return {"cluster": {"name": name, "status": "DELETING"}}

    def delete_addon(self, call: Call) -> dict[str, Any]:
        key = (call.params["clusterName"], call.params["addonName"])
        if self.addons.pop(key, None) is None:
            raise AwsFault("ResourceNotFoundException", f"No addon: {key[1]}")
        return {"addon": {"clusterName": key[0], "addonName": key[1], "status": "DELETING"}}

    def delete_access(self, call: Call) -> dict[str, Any]:
        if self.access.pop((call.params["clusterName"], call.params["principalArn"]), None) is None:
            raise AwsFault("ResourceNotFoundException", "The specified principalArn could not be found")
        return {}

    def delete_identity(self, call: Call) -> dict[str, Any]:
        for key, made in list(self.identities.items()):
            if made["associationId"] == call.params["associationId"]:
                del self.identities[key]
                return {"association": {"associationId": made["associationId"]}}
        raise AwsFault("ResourceNotFoundException", "The specified association could not be found")

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
        return str(made["VolumeId"])

    def create_addon(self, call: Call) -> dict[str, Any]:
        params = call.params
        cluster = self._cluster(params["clusterName"])
        name = params["addonName"]
        if name not in ADDONS:
            raise AwsFault("InvalidParameterException", f"Addon {name} specified is not supported")
        nodes = sum(
            group["scalingConfig"]["desiredSize"]
            for (owner, _), group in self.node_groups.items()
            if owner == cluster["name"]
        )
        if ADDONS[name] and not nodes:
            raise AwsFault(
                "ResourceNotReady", f"{name} stayed DEGRADED: there are insufficient replicas, no node can run it"
            )
        for identity in params.get("podIdentityAssociations", []):
            if (cluster["name"], "eks-pod-identity-agent") not in self.addons:
                raise AwsFault("InvalidRequestException", "the pod identity agent is not installed")
            self._trusts(identity["roleArn"], "pods.eks.amazonaws.com")
        self.addons[cluster["name"], name] = params
        return {"addon": {"clusterName": cluster["name"], "addonName": name, "status": "ACTIVE"}}

    def create_access(self, call: Call) -> dict[str, Any]:
        params = call.params
        self._cluster(params["clusterName"])
        self.access[params["clusterName"], params["principalArn"]] = {"policies": []}
        return {"accessEntry": {"clusterName": params["clusterName"], "principalArn": params["principalArn"]}}

    def associate(self, call: Call) -> dict[str, Any]:
        params = call.params
        entry = self.access.get((params["clusterName"], params["principalArn"]))
        if entry is None:
            raise AwsFault("ResourceNotFoundException", "The specified principalArn could not be found")
        entry["policies"].append((params["policyArn"], params["accessScope"]["type"]))
        return {"clusterName": params["clusterName"], "principalArn": params["principalArn"]}

    def create_identity(self, call: Call) -> dict[str, Any]:
        params = call.params
        self._cluster(params["clusterName"])
        self._trusts(params["roleArn"], "pods.eks.amazonaws.com")
        name = f"a-fake{next(self._numbers)}"
        key = (params["clusterName"], params["namespace"], params["serviceAccount"])
        self.identities[key] = params | {"associationId": name}
        return {"association": {"associationId": name, "clusterName": params["clusterName"]}}

    def _cluster(self, name: str) -> dict[str, Any]:
        if name not in self.clusters:
            raise AwsFault("ResourceNotFoundException", f"No cluster found for name: {name}.")
        return self.clusters[name]

    def _group(self, call: Call) -> dict[str, Any]:
        self._cluster(call.params["clusterName"])
        key = (call.params["clusterName"], call.params["nodegroupName"])
        if key not in self.node_groups:
            raise AwsFault("ResourceNotFoundException", f"No node group found for name: {key[1]}.")
        return self.node_groups[key]

    def _trusts(self, role_arn: str, service: str) -> None:
        from moto.iam.models import iam_backends

        role = next((role for role in iam_backends[ACCOUNT]["aws"].roles.values() if role.arn == role_arn), None)
        if role is None or service not in role.assume_role_policy_document:
            raise AwsFault("InvalidParameterException", f"{role_arn} does not exist or does not trust {service}")

    def _ec2(self, call: Call) -> Any:
        # EKS acts with its own service-linked role, not with the caller's permissions.
        return self.fake.client("ec2", region=call.region, via="eks")


def _checked(handler: Callable[[Call], Any], known: set[str]) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        unknown = set(call.params) - known - {"clientRequestToken", "maxResults", "nextToken"}
        assert not unknown, f"{call}: parameters that are not modelled: {unknown}"
        return handler(call)

    return run
