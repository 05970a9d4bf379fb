"""Service Quotas: the defaults AWS publishes, and what a test sets for the account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fake_aws.calls import AwsFault, Call

DEFAULTS = {
    ("vpc", "L-F678F1CE"): 5,
    ("vpc", "L-A4707A72"): 5,
    ("vpc", "L-FE5A380F"): 5,
    ("ec2", "L-0263D0A3"): 5,
    ("ec2", "L-1216C47A"): 64,
    ("ec2", "L-34B43A08"): 64,
    ("eks", "L-1194D53C"): 100,
}


class Quotas:
    def __init__(self) -> None:
        self.applied: dict[tuple[str, str], int] = {}

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        return {
            ("service-quotas", "GetServiceQuota"): self.of_account,
            ("service-quotas", "GetAWSDefaultServiceQuota"): self.of_all,
        }

    def of_account(self, call: Call) -> dict[str, Any]:
        return self._answer(call, self.applied)

    def of_all(self, call: Call) -> dict[str, Any]:
        return self._answer(call, DEFAULTS)

    def _answer(self, call: Call, values: dict[tuple[str, str], int]) -> dict[str, Any]:
        key = (call.params["ServiceCode"], call.params["QuotaCode"])
        assert key in DEFAULTS, f"quota {key} is not modelled"
        if key not in values:
            raise AwsFault("NoSuchResourceException", "The request failed because the specified quota does not exist.")
        return {"Quota": {"ServiceCode": key[0], "QuotaCode": key[1], "Value": float(values[key])}}
