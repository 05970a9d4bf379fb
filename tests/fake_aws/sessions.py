"""Systems Manager, as far as it opens sessions: to an instance of ours that runs and has reported, with a document that AWS has.
The session itself is carried by the plugin, for which `plugin.py` stands in."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moto.ec2.models import ec2_backends

from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.people import ACCOUNT

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

DOCUMENT = "AWS-StartPortForwardingSessionToRemoteHost"
# What a new instance takes to report, after it was first asked for.
REPORTS = 30.0


class Sessions:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self.opened: list[dict[str, Any]] = []
        self._asked: dict[str, float] = {}
        self._numbers = itertools.count(1)

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        return {("ssm", "StartSession"): self.start}

    def start(self, call: Call) -> dict[str, Any]:
        target, params = call.params["Target"], call.params["Parameters"]
        assert call.params["DocumentName"] == DOCUMENT, f"document {call.params['DocumentName']} is not modelled"
        # The document's own parameters: AWS-StartPortForwardingSessionToRemoteHost, schema version 1.0.
        assert set(params) == {"host", "portNumber", "localPortNumber"}, f"parameters {set(params)}"
        running = {item.id for item in ec2_backends[ACCOUNT][call.region].all_instances() if item.state == "running"}
        since = self._asked.setdefault(target, self.fake.clock.seconds)
        # SSM API reference, StartSession.
        if target not in running or self.fake.clock.seconds - since < REPORTS:
            raise AwsFault("TargetNotConnected", f"{target} is not connected.")
        session = {
            "SessionId": f"session-{next(self._numbers)}",
            "TokenValue": "secret-token",
            "StreamUrl": "wss://fake",
        }
        self.opened.append(session | {"Target": target, "Parameters": params})
        return session
