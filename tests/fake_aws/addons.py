"""EKS: add-ons, access entries and pod identities."""

from __future__ import annotations

from typing import Any

from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.eks_state import State

# Add-ons, and whether they are pods that need a node.
ADDONS = {
    "eks-pod-identity-agent": False,
    "vpc-cni": False,
    "kube-proxy": False,
    "coredns": True,
    "aws-efs-csi-driver": True,
}


# Seconds that an update takes.
ADDON_SECONDS = 40.0


class Addons(State):
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
        self.addons[cluster["name"], name] = params | {"addonVersion": self.addon_version(cluster["version"])}
        return {"addon": {"clusterName": cluster["name"], "addonName": name, "status": "ACTIVE"}}

    def describe_addon(self, call: Call) -> dict[str, Any]:
        found = self._installed(call)
        busy = self.fake.clock.seconds < found.get("ready", 0)
        names = ("clusterName", "addonName", "addonVersion")
        return {"addon": {name: found[name] for name in names} | {"status": "UPDATING" if busy else "ACTIVE"}}

    def addon_versions(self, call: Call) -> dict[str, Any]:
        """kube-proxy goes with one minor version; the others with the one before, too."""
        name, kubernetes = call.params["addonName"], call.params["kubernetesVersion"]
        before = f"1.{int(kubernetes.partition('.')[2]) - 1}"
        minors = [kubernetes] if name == "kube-proxy" else [kubernetes, before]
        default = self.addon_version(kubernetes)
        offered = [f"v{minor}.0-eksbuild.{build}" for minor in minors for build in range(self.build, 0, -1)]
        return {
            "addons": [
                {
                    "addonName": name,
                    "addonVersions": [
                        {
                            "addonVersion": version,
                            "compatibilities": [{"clusterVersion": kubernetes, "defaultVersion": version == default}],
                        }
                        for version in offered
                    ],
                }
            ]
        }

    def update_addon(self, call: Call) -> dict[str, Any]:
        found, params = self._installed(call), call.params
        cluster = self._cluster(params["clusterName"])
        if self.fake.clock.seconds < found.get("ready", 0):
            raise AwsFault("ResourceInUseException", f"Addon {params['addonName']} has an update in progress")
        if not params["addonVersion"].startswith(f"v{cluster['version']}."):
            raise AwsFault("InvalidParameterException", f"Addon version {params['addonVersion']} is not supported")
        found["addonVersion"], found["ready"] = params["addonVersion"], self.fake.clock.seconds + ADDON_SECONDS
        return {"update": {"id": "fake", "status": "InProgress"}}

    def _installed(self, call: Call) -> dict[str, Any]:
        key = (call.params["clusterName"], call.params["addonName"])
        if key not in self.addons:
            raise AwsFault("ResourceNotFoundException", f"No addon: {key[1]} found in cluster: {key[0]}")
        return self.addons[key]

    def delete_addon(self, call: Call) -> dict[str, Any]:
        key = (call.params["clusterName"], call.params["addonName"])
        if self.addons.pop(key, None) is None:
            raise AwsFault("ResourceNotFoundException", f"No addon: {key[1]}")
        return {"addon": {"clusterName": key[0], "addonName": key[1], "status": "DELETING"}}

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

    def delete_access(self, call: Call) -> dict[str, Any]:
        if self.access.pop((call.params["clusterName"], call.params["principalArn"]), None) is None:
            raise AwsFault("ResourceNotFoundException", "The specified principalArn could not be found")
        return {}

    def create_identity(self, call: Call) -> dict[str, Any]:
        params = call.params
        self._cluster(params["clusterName"])
        self._trusts(params["roleArn"], "pods.eks.amazonaws.com")
        name = f"a-fake{next(self._numbers)}"
        key = (params["clusterName"], params["namespace"], params["serviceAccount"])
        self.identities[key] = params | {"associationId": name}
        return {"association": {"associationId": name, "clusterName": params["clusterName"]}}

    def delete_identity(self, call: Call) -> dict[str, Any]:
        for key, made in list(self.identities.items()):
            if made["associationId"] == call.params["associationId"]:
                del self.identities[key]
                return {"association": {"associationId": made["associationId"]}}
        raise AwsFault("ResourceNotFoundException", "The specified association could not be found")
