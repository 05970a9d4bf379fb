"""The server: one port on loopback for all of AWS, another for the API server of Kubernetes, and what a test may look at and
arrange. One request is answered at a time, after everything that is due by then on the fake's clock."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.ssm.models import ssm_backends
from werkzeug.serving import make_server

from tests.fake_aws import front, moto_cache
from tests.fake_aws.apiserver import ApiServer
from tests.fake_aws.balancers import Balancers
from tests.fake_aws.calls import Call
from tests.fake_aws.clock import Clock
from tests.fake_aws.eks import Eks
from tests.fake_aws.guardduty import GuardDuty
from tests.fake_aws.identity import Identity
from tests.fake_aws.interfaces import Interfaces
from tests.fake_aws.network import Network
from tests.fake_aws.people import ACCOUNT, People, Person
from tests.fake_aws.pricing import Pricing
from tests.fake_aws.quotas import Quotas
from tests.fake_aws.sessions import Sessions
from tests.fake_aws.stacks import Stacks
from tests.fake_aws.tagging import Tagging
from tests.fake_aws.tokens import Tokens
from umiak.address import VARIABLE
from umiak.cluster import boundary
from umiak.spec.cluster import ClusterSpec, default_zones

REGION = "us-west-2"


@dataclass
class Fault:
    """An error to answer in place of the real answer, `times` times, after `skip` good ones; "*" is every operation."""

    service: str
    operation: str
    code: str
    times: int
    skip: int = 0

    def strikes(self, call: Call) -> bool:
        """Counts: ask once for each call."""
        fits = self.service in ("*", call.service) and self.operation in ("*", call.operation)
        if not fits or call.via or self.times <= 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class FakeAws:
    def __init__(self, speed: float = 0.0) -> None:
        moto_cache.install()
        self.speed = speed
        self.lock = threading.RLock()
        self.moto = DomainDispatcherApplication(create_backend_app)
        # To make a client takes longer than all it will be asked.
        self._clients: dict[tuple[str, ...], Any] = {}
        # While a child made by `fork` is at work: nobody may ask this process meanwhile.
        self.asleep = False
        self.kubernetes = ApiServer(self)
        self.arrange()
        self._server = make_server("127.0.0.1", 0, front.Front(self), threaded=True, request_handler=_QuietHandler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def arrange(self) -> None:
        """An empty account with one administrator."""
        moto_api_backend.reset()
        self.journal: list[Call] = []
        # When each call of the journal came, on the fake's clock.
        self.times: list[float] = []
        self.unmodelled: list[str] = []
        self.faults: list[Fault] = []
        # Where callers come from.
        self.address = "203.0.113.7"
        self.clock = Clock(self.speed)
        self.people = People()
        self.eks = Eks(self)
        self._eks = {REGION: self.eks}
        self.stacks = Stacks(self)
        self.interfaces = Interfaces(self)
        self.balancers = Balancers(self)
        self.tagging = Tagging(self)
        self.tokens = Tokens(self)
        self.pricing = Pricing()
        self.quotas = Quotas()
        self.kubernetes.arrange()
        self.identity = Identity(self)
        self.sessions = Sessions(self)
        own = [
            self.eks,
            self.stacks,
            self.interfaces,
            self.balancers,
            self.tagging,
            self.pricing,
            self.quotas,
            self.identity,
            self.sessions,
        ]
        self.handlers: dict[tuple[str, str], Callable[[Call], Any]] = {}
        for service in own:
            self.handlers |= service.handlers()
        # A policy that demands TLS, which there is none of here, would forbid everything.
        for operation in ("PutBucketPolicy", "DeleteBucketPolicy"):
            self.handlers["s3", operation] = lambda call: {}
        self.handlers["ssm", "GetParameters"] = self._parameters
        self.guardduty = GuardDuty(self)
        self.guards = Network(self).guards() | self.identity.guards()
        self.guards["ec2", "DeleteVpcEndpoints"] = self.guardduty.deleted

    def after_fork(self) -> None:
        """In a child process, which has a copy of everything here but no threads: answer at a port of its own.

        Clients made before, which what is due on the clock may hold, ask the child from now on (`client`).
        """
        self.asleep = False
        self.lock = threading.RLock()
        self._server = make_server("127.0.0.1", 0, front.Front(self), threaded=True, request_handler=_QuietHandler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @contextmanager
    def running(self) -> Iterator[FakeAws]:
        self._thread.start()
        self.kubernetes.start()
        try:
            yield self
        finally:
            self.kubernetes.stop()
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def eks_in(self, region: str) -> Eks:
        return self._eks.setdefault(region, Eks(self))

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
        return (
            nobody
            | {"AWS_ENDPOINT_URL": self.endpoint, VARIABLE: self.endpoint + front.CHECKIP}
            | (person.environment if person else {})
        )

    def client(self, service: str, person: Person | None = None, region: str = REGION, via: str = "") -> Any:
        """A boto3 client for a test's own preparations; `via` for a service that acts for that person."""
        made_at = self.endpoint
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

        def here(request: Any, **_: Any) -> None:
            request.url = request.url.replace(made_at, self.endpoint, 1)

        client.meta.events.register("before-sign", here)
        if via:
            client.meta.events.register(
                "before-sign", lambda request, **_: request.headers.add_header("X-Fake-Via", via)
            )
        return client

    def deploy(self, name: str, body: str, person: Person | None = None, region: str = REGION) -> str:
        """A stack, as an administrator makes it by hand with `aws cloudformation deploy`; its status when all is done."""
        self._bound(body, region)
        client = self.client("cloudformation", person, region)
        which = {"StackName": name, "ChangeSetName": "by-hand"}
        admin = [{"ParameterKey": "AdminArn", "ParameterValue": self.admin.principal}]
        client.create_change_set(
            **which,
            ChangeSetType="CREATE",
            TemplateBody=body,
            Parameters=admin if "AdminArn" in body else [],
            Capabilities=["CAPABILITY_NAMED_IAM"],
            OnStackFailure="DO_NOTHING",
        )
        self.settle()
        client.execute_change_set(**which)
        self.settle()
        status: str = client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        return status

    def _bound(self, body: str, region: str) -> None:
        """What the administrator creates first: the boundary that the template's roles name, as it is rendered."""
        iam = self.client("iam")
        for name in set(re.findall(rf":policy/([\w-]+)-{region}-boundary", body)):
            rendered = boundary.text(ClusterSpec(name, region, default_zones(region)))
            with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
                iam.create_policy(PolicyName=f"{name}-{region}-boundary", PolicyDocument=rendered)

    def _parameters(self, call: Call) -> dict[str, Any]:
        """Public ones: where services are, as moto knows it, and the newest image of nodes, as EKS here does."""
        known = ssm_backends[ACCOUNT][call.region].get_parameters(call.params["Names"])
        found = {name: value.response_object(False, call.region)["Value"] for name, value in known.items()}
        for name in call.params["Names"]:
            if name.startswith("/aws/service/eks/optimized-ami/"):
                found[name] = self.eks_in(call.region).release(name.split("/")[5])
        return {
            "Parameters": [{"Name": name, "Value": value} for name, value in found.items()],
            "InvalidParameters": [name for name in call.params["Names"] if name not in found],
        }

    def settle(self) -> None:
        """Let time pass until nothing is at work."""
        with self.lock:
            self.clock.settle()

    def fail(self, service: str, operation: str, code: str, times: int = 10**6, skip: int = 0) -> None:
        self.faults.append(Fault(service, operation, code, times, skip))

    def asked(self) -> set[tuple[str, str]]:
        """What was called, by anyone but AWS itself."""
        return {(call.service, call.operation) for call in self.journal if not call.via}


class _QuietHandler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any, **__: Any) -> None:
        """The journal keeps what is worth knowing."""
