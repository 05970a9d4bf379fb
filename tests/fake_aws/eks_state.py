"""What EKS knows in one region, and the look-ups that all of its subjects share."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.people import ACCOUNT

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws


class State:
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
        # The newest build of every add-on and of the nodes' image; a test raises it.
        self.build = 1
        self._numbers = itertools.count(1)

    def _cluster(self, name: str) -> dict[str, Any]:
        if name not in self.clusters:
            raise AwsFault("ResourceNotFoundException", f"No cluster found for name: {name}.")
        return self.clusters[name]

    def addon_version(self, kubernetes: str) -> str:
        return f"v{kubernetes}.0-eksbuild.{self.build}"

    def release(self, kubernetes: str) -> str:
        return f"{kubernetes}.0-2026110{self.build}"

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
