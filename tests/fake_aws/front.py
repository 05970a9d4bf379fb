"""The door: who asks, may they, is it modelled; then ours or moto answers."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from tests.fake_aws import calls, modelled, questions
from tests.fake_aws.calls import AwsFault, Call

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

# How the connection is lost, in place of an error's code: before the request is looked at, or after it was carried out.
LOST, LOST_AFTER = "connection lost", "connection lost after the act"
# Where an API server's webhook asks whose token that is.
TOKEN_REVIEW = "/token-review"
# What checkip.amazonaws.com is on AWS: the caller's address, as text.
CHECKIP = "/checkip"
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
        if environ["PATH_INFO"] == TOKEN_REVIEW:
            with self.fake.lock:
                return self._json(self.fake.tokens.review(json.loads(body)), start)
        if environ["PATH_INFO"] == CHECKIP:
            start("200 fake", [("Content-Type", "text/plain"), ("Content-Length", str(len(self.fake.address) + 1))])
            return [f"{self.fake.address}\n".encode()]
        call, operation, protocol = calls.read(environ)
        environ["wsgi.input"] = io.BytesIO(body)
        if self.fake.asleep:
            self.fake.unmodelled.append(f"{call} came from a child process, which has a fake of its own to ask")
        if call.via:
            # A service at work, within a request that has the lock.
            return self._answered(call, operation, protocol, environ, start)
        with self.fake.lock:
            self.fake.clock.run()
            if call.region in RegionsAndZonesBackend.zones:
                self.fake.tagging.look(call.region)
            self.fake.journal.append(call)
            self.fake.times.append(self.fake.clock.seconds)
            return self._answered(call, operation, protocol, environ, start)

    def _answered(
        self, call: Call, operation: Any, protocol: str, environ: dict[str, Any], start: Any
    ) -> Iterable[bytes]:
        lost = ""
        try:
            lost = self._fault(call)
            if lost == LOST:
                _hang_up(environ)
            handler = self._checked(call, protocol)
            if handler is None:
                # moto must not ask STS whose key this is; all of them belong to the one account.
                environ.pop("HTTP_X_FAKE_VIA", None)
                answered = self.fake.moto(environ, start)
                if lost:
                    _hang_up(environ)
                return answered
            result = handler(call)
        except AwsFault as fault:
            result = fault
        except ConnectionError:
            raise
        except Exception as error:
            self.fake.unmodelled.append(f"{call}: {type(error).__name__}: {error}")
            result = AwsFault("NotModelled", str(error))
        if lost:
            _hang_up(environ)
        status, headers, answer = calls.written(result, operation, protocol)
        start(status, [*headers, ("Content-Length", str(len(answer)))])
        return [answer]

    def _json(self, answer: dict[str, Any], start: Any) -> Iterable[bytes]:
        raw = json.dumps(answer).encode()
        start("200 fake", [("Content-Type", "application/json"), ("Content-Length", str(len(raw)))])
        return [raw]

    def _fault(self, call: Call) -> str:
        """How the connection is lost, if it is to be; any other arranged fault is raised."""
        for fault in self.fake.faults:
            if fault.strikes(call):
                if fault.code in (LOST, LOST_AFTER):
                    return fault.code
                raise AwsFault(fault.code, "injected by the test")
        return ""

    def _checked(self, call: Call, protocol: str) -> Any:
        words = _REFUSALS["ec2" if protocol == "ec2" else "json" if "json" in protocol else "query"]
        person = self.fake.people.by_key.get(call.key_id)
        if person is None:
            raise AwsFault(words["unknown"], "The security token included in the request is invalid.")
        # CloudFormation goes on with a session of its own.
        if person.expired and not call.via:
            raise AwsFault(words["expired"], "The security token included in the request is expired")
        if call.action != "sts:GetCallerIdentity":
            for question in questions.asked(self.fake, call):
                if person.decides(question.action, question.resource, question.has) != "allowed":
                    about = f" on resource: {question.resource}" if question.resource else ""
                    raise AwsFault(
                        words["denied"], f"{person.arn} is not authorized to perform: {question.action}{about}"
                    )
        if call.region not in RegionsAndZonesBackend.zones:
            raise ValueError(f"there is no region {call.region}")
        handler = self.fake.handlers.get((call.service, call.operation))
        if handler is None and (objection := modelled.objection(call)):
            raise ValueError(objection)
        guard = self.fake.guards.get((call.service, call.operation))
        if guard:
            guard(call)
        return handler


def _hang_up(environ: dict[str, Any]) -> None:
    """As when a cable is pulled: no answer, no end."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError("injected by the test")
