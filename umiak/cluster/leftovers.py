"""What a creation that failed has left is removed, unless it holds something."""

from __future__ import annotations

from functools import partial

from umiak.cluster import cleanup, fates, stacks
from umiak.cluster.aws import Aws, AwsError
from umiak.cluster.removal import Work, late_logs, made_by_kubernetes, nodes, strays, the_stack, unprotect
from umiak.cluster.things import Thing

# An empty file system is metered with this.
EMPTY_BYTES = 6144


def remove(work: Work) -> None:
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
