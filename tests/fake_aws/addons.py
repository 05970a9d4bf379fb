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
        self.addons[cluster["name"], name] = params
        return {"addon": {"clusterName": cluster["name"], "addonName": name, "status": "ACTIVE"}}

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
