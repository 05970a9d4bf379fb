"""Taking a cluster down, in an order that works, until nothing is left but what cluster.yaml says to keep.

A table of steps. Each looks at what is there, removes it and waits; done again, it finds nothing to do. So whatever interrupts
`destroy`, the same command resumes it, and there is no state of our own to lose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from umiak.cluster import advice, boundary, cleanup, fates, inventory, kube, ownership, stacks, states, waiting
from umiak.cluster.aws import Aws, AwsError
from umiak.cluster.checks.account import caller
from umiak.cluster.display import showing
from umiak.cluster.display.progress import Progress
from umiak.cluster.fates import Remains
from umiak.cluster.ownership import Owner
from umiak.cluster.stacks import Stack
from umiak.cluster.talk import Talk
from umiak.cluster.things import Thing
from umiak.errors import InputError, UmiakError
from umiak.spec.cluster import ClusterSpec
from umiak.spec.yamlfile import to_yaml

if TYPE_CHECKING:
    from umiak.kube.api import Api

# How often CloudFormation is asked again when it could not remove something.
ATTEMPTS = 4


@dataclass
class Work:
    """One destroy: what it is about and what it may use."""

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


def destroy(work: Work) -> Remains | None:
    """All of it, after asking; None when the answer was no."""
    spec, say = work.spec, work.say
    stack = work.stack()
    stacks.refuse_foreign(spec, stack)
    there = fates.audit(work.aws, spec, work.owner)
    if stack is None and not there.left:
        bound(work)
        say(f"there is nothing of {spec.name} in {spec.region} to remove")
        return there
    say(showing.announcement(spec, stack, there))
    if not work.talk.typed(f"Type the cluster's name to remove it ({spec.name}):", spec.name):
        say("nothing was removed")
        return None
    for title, step in STEPS:
        say(f"— {title}")
        step(work)
    return fates.audit(work.aws, spec, work.owner)


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


def settle(work: Work) -> None:
    """A change that is going on is let end: CloudFormation would refuse to delete."""
    stack = work.stack()
    if stack and stack.status not in states.DELETABLE and stack.status != "DELETE_IN_PROGRESS":
        work.say(f"waiting: the stack is {stack.status}")
        stacks.watch(work.aws, stack.id, None, Progress(work.say))


def keep_data(work: Work) -> None:
    """What cluster.yaml says to keep is told to CloudFormation, if the stack was made to delete it."""
    stack = work.stack()
    if stack is None or stack.status in ("REVIEW_IN_PROGRESS", "DELETE_IN_PROGRESS"):
        return
    template = stacks.template(work.aws, stack)
    lost = [title for title in _lost(template, work.spec) if title in stacks.resources(work.aws, stack.id)]
    if not lost:
        return
    if stack.status not in states.WHOLE:
        if not stacks.was_whole(work.aws, stack):
            return
        raise InputError(
            f"cluster.yaml says keep, but the stack would delete {', '.join(lost)} and cannot be changed while it is "
            f"{stack.status}; write delete in cluster.yaml, or save the data first"
        )
    work.say(f"telling CloudFormation to keep {', '.join(lost)}")
    body = to_yaml(keeping(template, lost))
    if stacks.plan(work.aws, work.spec.name, body, stack.parameters, new=False):
        after = stacks.execute(work.aws, work.spec.name)
        result = stacks.watch(work.aws, stack.id, after, Progress(work.say))
        if result.status != "UPDATE_COMPLETE":
            raise UmiakError(
                f"the stack could not be told to keep {', '.join(lost)}: {result.status}; nothing was removed"
            )


def _lost(template: dict[str, Any], spec: ClusterSpec) -> list[str]:
    """Titles that the stack would delete although cluster.yaml says keep."""
    declared = template["Resources"]
    return [
        entry.title
        for entry in fates.DATA
        if entry.is_kept(spec)
        and entry.title in declared
        and declared[entry.title].get("DeletionPolicy", "Delete") == "Delete"
    ]


def keeping(template: dict[str, Any], titles: list[str]) -> dict[str, Any]:
    """The same template, with those kept. A policy alone is no change to CloudFormation, so the metadata says it too."""
    resources = dict(template["Resources"])
    for title in titles:
        resource = dict(resources[title])
        resource["DeletionPolicy"] = "RetainExceptOnCreate"
        resource["UpdateReplacePolicy"] = "Retain"
        resource["Metadata"] = {**resource.get("Metadata", {}), "OnDestroy": "keep"}
        resources[title] = resource
    return {**template, "Resources": resources}


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


def disks(work: Work) -> None:
    cleanup.disks(work.aws, work.spec, work.owner, work.say)


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


def data(work: Work) -> None:
    """What cluster.yaml says to delete, where the stack was made to keep it."""
    for entry in fates.DATA:
        if not entry.is_kept(work.spec):
            fates.remove(work.aws, work.spec, work.owner, entry, work.say)


def late_logs(work: Work) -> None:
    """The last words of a control plane may have made their group again."""
    cleanup.log_group(work.aws, work.spec, work.owner, work.say)


def bound(work: Work) -> None:
    """The boundary of the roles, when they are gone; what an administrator made for the next cluster stays."""
    became = boundary.remove(work.aws, work.spec, caller(work.aws).account)
    if became:
        work.say(became)


STEPS: tuple[tuple[str, Callable[[Work], None]], ...] = (
    ("waiting for what is going on", settle),
    ("protection off", unprotect),
    ("what is to be kept", keep_data),
    ("load balancers", made_by_kubernetes),
    ("nodes", nodes),
    ("disks", disks),
    ("stray network interfaces and groups", strays),
    ("data", empty_bucket),
    ("cluster, mount targets and network", the_stack),
    ("data that the stack kept", data),
    ("logs", late_logs),
    ("boundary of the roles", bound),
)


def clean(work: Work) -> None:
    """Only what a creation that failed has left: nothing in it was ever used, but what holds something is kept all the same."""
    stack = work.stack()
    made = stacks.resources(work.aws, stack.id) if stack else {}
    for step in (unprotect, made_by_kubernetes, nodes, strays, the_stack, late_logs):
        step(work)
    for entry in fates.DATA:
        physical = made.get(entry.title, {}).get("PhysicalResourceId")
        for thing in [thing for thing in entry.look(work.aws, work.spec, work.owner) if thing.name == physical]:
            if not holds_nothing(work.aws, thing):
                work.say(f"kept: {thing}, with the key to it: it holds something")
                return
            work.say(f"removing {thing}")
            cleanup.attempt(partial(entry.remove, work.aws, thing, work.say))


# An empty file system is metered with this.
EMPTY_BYTES = 6144


def holds_nothing(aws: Aws, thing: Thing) -> bool:
    if thing.kind == "bucket":
        return next(aws.each("s3", "ListObjectVersions", "Versions", Bucket=thing.name), None) is None
    if thing.kind == "file system":
        try:
            found = aws.call("efs", "DescribeFileSystems", FileSystemId=thing.name)["FileSystems"][0]
        except AwsError:
            return False
        return int(found["SizeInBytes"]["Value"]) <= EMPTY_BYTES
    return True
