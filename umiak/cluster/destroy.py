"""Taking a cluster down, in an order that works, until nothing is left but what cluster.yaml says to keep.

A table of steps. Each looks at what is there, removes it and waits; done again, it finds nothing to do. So whatever interrupts
`destroy`, the same command resumes it, and there is no state of our own to lose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from umiak.cluster import boundary, cleanup, fates, stacks, states
from umiak.cluster.checks.account import caller
from umiak.cluster.display import showing
from umiak.cluster.display.progress import Progress
from umiak.cluster.fates import Remains
from umiak.cluster.removal import (
    Work,
    empty_bucket,
    late_logs,
    made_by_kubernetes,
    nodes,
    strays,
    the_stack,
    unprotect,
)
from umiak.errors import InputError, UmiakError
from umiak.spec.cluster import ClusterSpec
from umiak.spec.yamlfile import to_yaml


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


def disks(work: Work) -> None:
    cleanup.disks(work.aws, work.spec, work.owner, work.say)


def data(work: Work) -> None:
    """What cluster.yaml says to delete, where the stack was made to keep it."""
    for entry in fates.DATA:
        if not entry.is_kept(work.spec):
            fates.remove(work.aws, work.spec, work.owner, entry, work.say)


def bound(work: Work) -> None:
    """The boundary of the roles, when they are gone; what an administrator made for the next cluster stays."""
    became = boundary.remove(work.aws, work.spec, caller(work.aws).account)
    if became:
        work.say(became)


STEPS: tuple[tuple[str, Callable[[Work], None]], ...] = (
    ("waiting for changes in progress", settle),
    ("protection off", unprotect),
    ("data to be kept", keep_data),
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
