"""The steps that take things away. Each looks at what is there, removes it and waits; done again, it finds nothing to do.

`destroy` does them all, in its own order; `up` does some, when a creation has failed (leftovers.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from umiak.cluster import advice, cleanup, inventory, kube, ownership, stacks, waiting
from umiak.cluster.aws import Aws
from umiak.cluster.display.progress import Progress
from umiak.cluster.ownership import Owner
from umiak.cluster.stacks import Stack
from umiak.cluster.talk import Talk
from umiak.errors import UmiakError
from umiak.spec.cluster import ClusterSpec

if TYPE_CHECKING:
    from umiak.kube.api import Api

# How often CloudFormation is asked again when it could not remove something.
ATTEMPTS = 4


@dataclass
class Work:
    """One removal: what it is about and what it may use."""

    aws: Aws
    spec: ClusterSpec
    talk: Talk
    # A client for the cluster's API server, where there is a kubeconfig that works.
    connect: Callable[[], Api | None]
    # What earlier clusters of this name kept goes too.
    earlier_too: bool = False
    # Networks of the cluster: after the stack is gone nothing else would tell which they were.
    networks: list[str] = field(default_factory=list)

    @cached_property
    def owner(self) -> Owner:
        """Asked once: while it is removed, the stack is the one it was at the beginning."""
        return ownership.find(self.aws, self.spec, earlier_too=self.earlier_too)

    @property
    def say(self) -> Callable[[str], None]:
        return self.talk.say

    def stack(self) -> Stack | None:
        return stacks.find(self.aws, self.spec.name)


def unprotect(work: Work) -> None:
    """Protection against deletion, of the stack and of the control plane."""
    aws, spec, stack = work.aws, work.spec, work.stack()
    if stack and stack.protected:
        aws.call("cloudformation", "UpdateTerminationProtection", StackName=stack.id, EnableTerminationProtection=False)
        work.say("termination protection of the stack is off")
    if any(True for _ in inventory.cluster(aws, spec, work.owner)):
        found = aws.call("eks", "DescribeCluster", name=spec.name)["cluster"]
        if found.get("deletionProtection"):
            aws.call("eks", "UpdateClusterConfig", name=spec.name, deletionProtection=False)
            work.say("deletion protection of the control plane is off")


def made_by_kubernetes(work: Work) -> None:
    """Asked of Kubernetes first, whose controllers would make them again; then of AWS, in case it could not be asked."""
    api = work.connect()
    if api is not None:
        try:
            for where in kube.exposed(api):
                work.say(f"removing {where.rpartition('/namespaces/')[2]} in Kubernetes")
                api.delete(where)
        except UmiakError as error:
            work.say(f"Kubernetes cannot be asked ({error}); what it made is removed in AWS")
    cleanup.load_balancers(work.aws, work.spec, work.owner, work.say)


def nodes(work: Work) -> None:
    cleanup.node_groups(work.aws, work.spec, work.owner, work.say)


def strays(work: Work) -> None:
    """Interfaces, groups and endpoints that keep the network from being removed."""
    work.networks = [thing.name for thing in inventory.networks(work.aws, work.spec, work.owner)]
    _free(work)


def empty_bucket(work: Work) -> None:
    if work.spec.destroy.bucket == "delete":
        for thing in inventory.buckets(work.aws, work.spec, work.owner):
            if not thing.earlier:
                cleanup.empty(work.aws, thing.name, work.say)


def the_stack(work: Work) -> None:
    """Cluster, mount targets, network and the rest, by CloudFormation. What it cannot remove is freed and tried again."""
    for attempt in range(1, ATTEMPTS + 1):
        stack = work.stack()
        if stack is None:
            return
        after = None
        if stack.status != "DELETE_IN_PROGRESS":
            after = stacks.delete(work.aws, stack, _given_up(work, stack) if attempt == ATTEMPTS else ())
        result = stacks.watch(work.aws, stack.id, after, Progress(work.say), meanwhile=lambda: _free(work))
        if result.status == "DELETE_COMPLETE":
            return
        failed = [event for event in result.events if event.is_failure]
        for event in failed:
            work.say(f"{event.title}: {event.reason}: {advice.what_helps(event.reason)}")
        work.say(f"not everything could be removed; trying again ({attempt} of {ATTEMPTS})")
        # Some of what is in the way goes by itself, a little later.
        waiting.sleep(waiting.LONGEST)
        made_by_kubernetes(work)
        strays(work)
        empty_bucket(work)


def _free(work: Work) -> None:
    """Again and again while the stack goes: what is in the way may come later, or be let go of later."""
    for vpc in work.networks:
        cleanup.endpoints(work.aws, vpc, work.say)
        cleanup.interfaces(work.aws, vpc, work.say)
        cleanup.groups(work.aws, work.spec, work.owner, vpc, work.say)


def _given_up(work: Work, stack: Stack) -> tuple[str, ...]:
    """On the last attempt the stack goes without what it cannot remove; the last look finds and names it."""
    if stack.status != "DELETE_FAILED":
        return ()
    described = stacks.resources(work.aws, stack.id)
    return tuple(title for title, entry in described.items() if entry["ResourceStatus"] == "DELETE_FAILED")


def late_logs(work: Work) -> None:
    """The last words of a control plane may have made their group again."""
    cleanup.log_group(work.aws, work.spec, work.owner, work.say)
