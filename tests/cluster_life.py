"""The life of a cluster against the fake AWS: commands as a user types them, in simulated time, and what must hold after."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from moto.ec2.models import ec2_backends
from moto.ecr.models import ecr_backends
from moto.efs.models import efs_backends
from moto.iam.models import iam_backends
from moto.kms.models import kms_backends
from moto.logs.models import logs_backends
from moto.s3.models import s3_backends

from tests.cluster_options import chosen
from tests.fake_aws import FakeAws
from tests.fake_aws.people import ACCOUNT
from umiak.cli import cluster_life
from umiak.cli.main import main
from umiak.cluster import checks, waiting
from umiak.cluster.aws import Aws
from umiak.cluster.initial import text
from umiak.errors import UmiakError
from umiak.spec.cluster import ClusterSpec

REGION = "us-west-2"


class Killed(BaseException):
    """As `kill -9`: nothing in the program may catch it."""


class Kubernetes:
    """The fake's API server without TLS and tokens, which cost a process each time; one test uses them."""

    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake

    def _ask(self, method: str, where: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        with self.fake.lock:
            self.fake.clock.run()
            return self.fake.kubernetes._handled(method, where, json.dumps(body).encode())

    def find(self, where: str) -> dict[str, Any] | None:
        code, answer = self._ask("GET", where)
        return answer if code == 200 else None

    def items(self, where: str) -> list[dict[str, Any]]:
        code, answer = self._ask("GET", where)
        if code != 200:
            raise UmiakError(answer["message"])
        found: list[dict[str, Any]] = answer["items"]
        return found

    def create(self, where: str, body: dict[str, Any]) -> object:
        return self._ask("POST", where, body)

    def delete(self, where: str) -> object:
        return self._ask("DELETE", where)


@dataclass
class Life:
    aws: FakeAws
    directory: Path
    patch: pytest.MonkeyPatch
    output: str = ""

    def write(self, spec: ClusterSpec) -> None:
        (self.directory / "cluster.yaml").write_text(text(spec))

    def run(self, *words: str) -> int:
        """Exit code of `umiak cluster …`; what it printed is `output`."""
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            try:
                return main(["cluster", *words])
            finally:
                self.output = printed.getvalue()

    def up(self) -> int:
        return self.run("up", "--yes")

    def destroy(self) -> int:
        return self.run("destroy", "--yes")

    def until_done(self, verb: Callable[[], int], tries: int = 10) -> None:
        """Type the same command again until it succeeds."""
        for _ in range(tries):
            try:
                if verb() == 0:
                    return
            except Killed:
                continue
        raise AssertionError(f"not done after {tries} tries:\n{self.output}")

    def kill_after(self, calls: int) -> None:
        """The process is killed before its call to AWS of that number."""
        left, prepare = calls, Aws._prepare

        def counted(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return prepare(*args)

        self.patch.setattr(Aws, "_prepare", counted)

    def kill_before(self, operation: str) -> None:
        """The process is killed before its first call of an operation."""
        prepare = Aws._prepare

        def counted(*args: Any) -> Any:
            if args[2] == operation:
                raise Killed
            return prepare(*args)

        self.patch.setattr(Aws, "_prepare", counted)

    def kill_past(self, operation: str, calls: int) -> None:
        """The process is killed before its call of that number after the first of an operation."""
        left, prepare = 0, Aws._prepare

        def counted(*args: Any) -> Any:
            nonlocal left
            if left:
                left -= 1
                if left == 0:
                    raise Killed
            elif args[2] == operation:
                left = calls
            return prepare(*args)

        self.patch.setattr(Aws, "_prepare", counted)

    def status(self) -> str | None:
        stack = self.aws.stacks.stacks.get((REGION, "paddle"))
        return None if stack is None or stack.status == "DELETE_COMPLETE" else stack.status

    def assert_up(self, nodes: int = 3) -> None:
        assert self.status() in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), self.output
        assert len(self.aws.eks.instances("paddle")) == nodes
        assert (self.directory / "kubeconfig").stat().st_mode & 0o777 == 0o600
        kinds = {path.split("/")[-2] for path in self.aws.kubernetes.objects}
        assert {"persistentvolumes", "persistentvolumeclaims", "serviceaccounts"} <= kinds

    def assert_nothing_left(self) -> None:
        """By looking into the fake itself, not by asking the code under test."""
        found = left(self.aws)
        assert not found, found


def left(aws: FakeAws) -> list[str]:
    """Everything in the account that an empty one does not have; a key that is going to be deleted counts as gone."""
    ec2 = ec2_backends[ACCOUNT][REGION]
    found = [f"vpc {vpc.id}" for vpc in ec2.vpcs.values() if not vpc.is_default]
    found += [f"instance {i.id}" for i in ec2.all_instances() if i.state != "terminated"]
    found += [f"volume {name}" for name in ec2.volumes]
    found += [f"nat {gateway.id}" for gateway in ec2.nat_gateways.values() if gateway.state != "deleted"]
    found += [f"address {address.public_ip}" for address in ec2.addresses]
    found += [f"interface {name}" for name in aws.interfaces.all]
    found += [
        f"group {group.name}" for groups in ec2.groups.values() for group in groups.values() if group.name != "default"
    ]
    found += [f"balancer {name}" for name in aws.balancers.all]
    found += [f"cluster {name}" for name in aws.eks.clusters]
    found += [f"volume {name}" for name in efs_backends[ACCOUNT][REGION].file_systems_by_id]
    found += [f"bucket {name}" for name in s3_backends[ACCOUNT]["aws"].buckets]
    found += [f"repository {name}" for name in ecr_backends[ACCOUNT][REGION].repositories]
    # AWS has keys of its own in an account, for disks.
    ours = [key for key in kms_backends[ACCOUNT][REGION].keys.values() if key.description.startswith("umiak ")]
    found += [f"key {key.id}" for key in ours if key.key_state != "PendingDeletion"]
    found += [f"logs {name}" for name in logs_backends[ACCOUNT][REGION].groups]
    found += [f"role {role.name}" for role in iam_backends[ACCOUNT]["aws"].roles.values()]
    # A boundary without our tag is the administrator's, and stays.
    policies = iam_backends[ACCOUNT]["aws"].managed_policies.values()
    found += [f"policy {made.name}" for made in policies if ACCOUNT in made.arn and made.tags]
    found += [f"stack {s.name}" for s in aws.stacks.stacks.values() if s.status != "DELETE_COMPLETE"]
    return found


def everything_goes() -> ClusterSpec:
    return chosen([("api", "one"), ("destroy", "all")])


@pytest.fixture
def life(aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    """An empty directory with a cluster.yaml that deletes everything, and no time lost by waiting."""

    def pass_time(seconds: float) -> None:
        with aws.lock:
            aws.clock.advance(seconds)
            aws.clock.run()

    monkeypatch.setattr(waiting, "sleep", pass_time)
    monkeypatch.setattr(waiting, "now", lambda: aws.clock.seconds)
    # A third of the questions. What happens between two of them is the same, and is seen a little later.
    monkeypatch.setattr(waiting, "SHORTEST", 3 * waiting.SHORTEST)
    monkeypatch.setattr(waiting, "LONGEST", 3 * waiting.LONGEST)
    strangers, really_sleep = set(threading.enumerate()) - {threading.current_thread()}, time.sleep

    def sleep(seconds: float) -> None:
        """What boto3 waits before it tries again. Threads that other tests left have no part in this clock."""
        (really_sleep if threading.current_thread() in strangers else pass_time)(seconds)

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr(cluster_life, "_connect", lambda path: Kubernetes(aws))
    # Most of `validate` has tests of its own, and takes as long as the rest.
    monkeypatch.setattr(checks, "ONLINE", {name: checks.ONLINE[name] for name in ("name", "existing")})
    monkeypatch.chdir(tmp_path)
    made = Life(aws, tmp_path, monkeypatch)
    made.write(everything_goes())
    return made
