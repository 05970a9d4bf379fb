"""EKS: managed node groups and the machines they keep, with the mistakes AWS would not forgive."""

from __future__ import annotations

import itertools
from typing import Any

from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.eks_state import State

# Seconds until a node group is active, and until one that is deleted by its API is gone.
NODES_SECONDS, GONE_SECONDS = 120.0, 200.0


class NodeGroups(State):
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
        version = params.get("version", cluster["version"])
        if version != cluster["version"]:
            raise AwsFault(
                "InvalidParameterException", f"Node group of {version}, control plane of {cluster['version']}"
            )
        released = {"version": version, "releaseVersion": self.release(version)}
        made = (
            params
            | released
            | {"ready": self.fake.clock.seconds + NODES_SECONDS, "template": template, "subnet": subnets[0]}
        )
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
        if status == "ACTIVE" and self.fake.clock.seconds < found.get("updated", 0):
            status = "UPDATING"
        names = (
            "clusterName",
            "nodegroupName",
            "scalingConfig",
            "capacityType",
            "instanceTypes",
            "version",
            "releaseVersion",
        )
        return {
            "nodegroup": {name: found[name] for name in names}
            | {"status": status, "health": {"issues": found.get("issues", [])}}
        }

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
        """Other machines: of another Kubernetes version, image, or version of the launch template."""
        found, ec2 = self._group(call), self._ec2(call)
        if self.fake.clock.seconds < found.get("updated", 0):
            raise AwsFault("ResourceInUseException", f"Nodegroup {found['nodegroupName']} has an update in progress")
        wanted = call.params.get("version", found["version"])
        if wanted != self._cluster(found["clusterName"])["version"] and wanted != found["version"]:
            raise AwsFault("InvalidParameterException", f"Nodegroup version {wanted} is not the control plane's")
        found["version"], found["releaseVersion"] = wanted, call.params.get("releaseVersion", self.release(wanted))
        if template := call.params.get("launchTemplate"):
            which = {"LaunchTemplateId": template["id"], "Versions": [template["version"]]}
            answer = ec2.describe_launch_template_versions(**which)
            found["template"] = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        if not call.via:
            found["updated"] = self.fake.clock.seconds + NODES_SECONDS
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
