"""EKS: clusters, node groups, add-ons, access entries and pod identities, with the mistakes AWS would not forgive.

Times are short: everything is active at once, except an add-on that waits for nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

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
            "DescribeCluster": (self.describe, {"name"}),
            "DescribeClusterVersions": (self.versions, set()),
            "ListClusters": (self.list, set()),
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
        return {"cluster": self._cluster(call.params["name"])}

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
            "endpoint": f"https://{name}.{call.region}.eks.invalid",
            "certificateAuthority": {"data": "ZmFrZQ=="},
            "status": "ACTIVE",
            "roleArn": params["roleArn"],
            "resourcesVpcConfig": params["resourcesVpcConfig"]
            | {"clusterSecurityGroupId": group, "vpcId": subnets[0]["VpcId"]},
            "tags": params.get("tags", {}),
            "region": call.region,
        }
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
        self.node_groups[cluster["name"], params["nodegroupName"]] = params | {"status": "ACTIVE"}
        if scaling["desiredSize"]:
            self._launch(ec2, params, template, subnets[0])
        return {
            "nodegroup": {"clusterName": cluster["name"], "nodegroupName": params["nodegroupName"], "status": "ACTIVE"}
        }

    def _launch(self, ec2: Any, params: dict[str, Any], template: dict[str, Any], subnet: dict[str, Any]) -> None:
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
        ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType=params["instanceTypes"][0],
            MinCount=params["scalingConfig"]["desiredSize"],
            MaxCount=params["scalingConfig"]["desiredSize"],
            SubnetId=subnet["SubnetId"],
            BlockDeviceMappings=template["BlockDeviceMappings"],
            TagSpecifications=specifications,
            **spot,
        )

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
        self.identities[params["clusterName"], params["namespace"], params["serviceAccount"]] = params
        return {"association": {"associationId": f"a-fake{next(self._numbers)}", "clusterName": params["clusterName"]}}

    def _cluster(self, name: str) -> dict[str, Any]:
        if name not in self.clusters:
            raise AwsFault("ResourceNotFoundException", f"No cluster found for name: {name}.")
        return self.clusters[name]

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
