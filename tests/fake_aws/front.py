"""The door: who asks, may they, is it modelled; then ours or moto answers."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from tests.fake_aws import calls, modelled
from tests.fake_aws.calls import AwsFault, Call

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

# Each family of services has its own words for the same refusal.
_REFUSALS = {
    "ec2": {"denied": "UnauthorizedOperation", "unknown": "AuthFailure", "expired": "RequestExpired"},
    "json": {
        "denied": "AccessDeniedException",
        "unknown": "UnrecognizedClientException",
        "expired": "ExpiredTokenException",
    },
    "query": {"denied": "AccessDenied", "unknown": "InvalidClientTokenId", "expired": "ExpiredToken"},
}


class Front:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        call, operation, protocol = calls.read(environ)
        environ["wsgi.input"] = io.BytesIO(body)
        self.fake.journal.append(call)
        try:
            handler = self._checked(call, protocol)
            if handler is None:
                # moto must not ask STS whose key this is; all of them belong to the one account.
                environ.pop("HTTP_X_FAKE_VIA", None)
                return self.fake.moto(environ, start)
            result = handler(call)
        except AwsFault as fault:
            result = fault
        except Exception as error:
            self.fake.unmodelled.append(f"{call}: {type(error).__name__}: {error}")
            result = AwsFault("NotModelled", str(error))
        status, headers, answer = calls.written(result, operation, protocol)
        start(status, [*headers, ("Content-Length", str(len(answer)))])
        return [answer]

    def _checked(self, call: Call, protocol: str) -> Any:
        words = _REFUSALS["ec2" if protocol == "ec2" else "json" if "json" in protocol else "query"]
        person = self.fake.people.by_key.get(call.key_id)
        if person is None:
            raise AwsFault(words["unknown"], "The security token included in the request is invalid.")
        if person.expired:
            raise AwsFault(words["expired"], "The security token included in the request is expired")
        if call.action != "sts:GetCallerIdentity":
            decision = person.decides(call.action, None, {"aws:RequestedRegion": call.region})
            if decision != "allowed":
                raise AwsFault(words["denied"], f"{person.arn} is not authorized to perform: {call.action}")
        for fault in self.fake.faults:
            if (fault.service, fault.operation) == (call.service, call.operation) and fault.times > 0:
                fault.times -= 1
                raise AwsFault(fault.code, "injected by the test")
        if call.region not in RegionsAndZonesBackend.zones:
            raise ValueError(f"there is no region {call.region}")
        handler = self.fake.handlers.get((call.service, call.operation))
        if handler is None and (objection := modelled.objection(call)):
            raise ValueError(objection)
        return handler
