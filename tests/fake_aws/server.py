"""The server: one thread, one port on loopback, and what a test may look at and arrange."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tests.fake_aws import front
from tests.fake_aws.calls import Call
from tests.fake_aws.eks import Eks
from tests.fake_aws.identity import Identity
from tests.fake_aws.people import People, Person
from tests.fake_aws.pricing import Pricing
from tests.fake_aws.quotas import Quotas
from tests.fake_aws.stacks import Stacks

REGION = "us-west-2"


@dataclass
class Fault:
    """An error to answer in place of the real answer, `times` times."""

    service: str
    operation: str
    code: str
    times: int


class FakeAws:
    def __init__(self) -> None:
        self.moto = DomainDispatcherApplication(create_backend_app)
        # To make a client takes longer than all it will be asked.
        self._clients: dict[tuple[str, ...], Any] = {}
        self.arrange()
        self._server = make_server("127.0.0.1", 0, front.Front(self), threaded=True, request_handler=_QuietHandler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def arrange(self) -> None:
        """An empty account with one administrator."""
        moto_api_backend.reset()
        self.journal: list[Call] = []
        self.unmodelled: list[str] = []
        self.faults: list[Fault] = []
        self.people = People()
        self.eks = Eks(self)
        self.stacks = Stacks(self)
        self.pricing = Pricing()
        self.quotas = Quotas()
        own = [self.eks, self.stacks, self.pricing, self.quotas, Identity(self)]
        self.handlers: dict[tuple[str, str], Callable[[Call], Any]] = {}
        for service in own:
            self.handlers |= service.handlers()

    @contextmanager
    def running(self) -> Iterator[FakeAws]:
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    @property
    def admin(self) -> Person:
        return self.people.admin

    def environment(self, person: Person | None = None) -> dict[str, str]:
        """What boto3 must find in the environment to be that person here, and nobody anywhere else."""
        nobody = {
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }
        return nobody | {"AWS_ENDPOINT_URL": self.endpoint} | (person.environment if person else {})

    def client(self, service: str, person: Person | None = None, region: str = REGION, via: str = "") -> Any:
        """A boto3 client for a test's own preparations; `via` for a service that acts for that person."""
        who = person or self.admin
        known = (service, who.key_id, region, via)
        if known in self._clients:
            return self._clients[known]
        client = self._clients[known] = boto3.client(
            service,
            region_name=region,
            endpoint_url=self.endpoint,
            aws_access_key_id=who.key_id,
            aws_secret_access_key="secret",
            config=Config(retries={"total_max_attempts": 1}, request_checksum_calculation="when_required"),
        )
        if via:
            client.meta.events.register(
                "before-sign", lambda request, **_: request.headers.add_header("X-Fake-Via", via)
            )
        return client

    def deploy(self, name: str, body: str, person: Person | None = None) -> str:
        """A stack, as an administrator makes it by hand with `aws cloudformation deploy`; its status."""
        client = self.client("cloudformation", person)
        which = {"StackName": name, "ChangeSetName": "by-hand"}
        client.create_change_set(
            **which,
            ChangeSetType="CREATE",
            TemplateBody=body,
            Parameters=[{"ParameterKey": "AdminArn", "ParameterValue": self.admin.principal}],
            Capabilities=["CAPABILITY_NAMED_IAM"],
            OnStackFailure="DO_NOTHING",
        )
        client.execute_change_set(**which)
        status: str = client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        return status

    def fail(self, service: str, operation: str, code: str, times: int = 10**6) -> None:
        self.faults.append(Fault(service, operation, code, times))

    def asked(self) -> set[tuple[str, str]]:
        """What was called, by anyone but AWS itself."""
        return {(call.service, call.operation) for call in self.journal if not call.via}


class _QuietHandler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any, **__: Any) -> None:
        """The journal keeps what is worth knowing."""
