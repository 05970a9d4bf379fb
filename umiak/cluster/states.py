"""What a stack's status means for each command, as tables. Pure: nothing here asks or acts."""

from __future__ import annotations

from enum import Enum


class Step(Enum):
    """What `up` does next."""

    CREATE = "create it"
    # Only a plan of ours that was never carried out.
    REPLAN = "create it from a new plan"
    WATCH = "wait for the change in progress"
    COMPARE = "compare it with cluster.yaml"
    # A creation that failed: remove what is left of it, then create.
    CLEAN = "remove what failed, then create it"
    # A change that failed, and then failed to be undone.
    UNDO = "continue undoing the last change"
    # A destroy that is not finished: only `destroy` knows what to do with the data.
    REFUSE = "finish the destroy first"


UP: dict[str | None, Step] = {
    None: Step.CREATE,
    "REVIEW_IN_PROGRESS": Step.REPLAN,
    "CREATE_IN_PROGRESS": Step.WATCH,
    "CREATE_COMPLETE": Step.COMPARE,
    "CREATE_FAILED": Step.CLEAN,
    "ROLLBACK_IN_PROGRESS": Step.WATCH,
    "ROLLBACK_COMPLETE": Step.CLEAN,
    "ROLLBACK_FAILED": Step.CLEAN,
    "UPDATE_IN_PROGRESS": Step.WATCH,
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": Step.WATCH,
    "UPDATE_COMPLETE": Step.COMPARE,
    "UPDATE_FAILED": Step.UNDO,
    "UPDATE_ROLLBACK_IN_PROGRESS": Step.WATCH,
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": Step.WATCH,
    "UPDATE_ROLLBACK_COMPLETE": Step.COMPARE,
    "UPDATE_ROLLBACK_FAILED": Step.UNDO,
    "DELETE_IN_PROGRESS": Step.WATCH,
    "DELETE_FAILED": Step.REFUSE,
}

# A stack in one of these may be deleted at once; in the others only when what is going on has ended.
DELETABLE = {
    "REVIEW_IN_PROGRESS",
    "CREATE_IN_PROGRESS",
    "CREATE_COMPLETE",
    "CREATE_FAILED",
    "ROLLBACK_COMPLETE",
    "ROLLBACK_FAILED",
    "UPDATE_COMPLETE",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_COMPLETE",
    "UPDATE_ROLLBACK_FAILED",
    "DELETE_FAILED",
}
# The resources are there and hold together.
WHOLE = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"}
# It was asked for and did not come to be.
FAILED = {
    "CREATE_FAILED",
    "ROLLBACK_COMPLETE",
    "ROLLBACK_FAILED",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_COMPLETE",
    "UPDATE_ROLLBACK_FAILED",
    "DELETE_FAILED",
}


def at_work(status: str) -> bool:
    """A plan under review is at rest, whatever its name says."""
    return status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS"


def up(status: str | None, was_whole: bool) -> Step:
    """`was_whole`: it has been complete once, so it may hold somebody's data."""
    step = UP[status]
    return Step.CLEAN if step is Step.REFUSE and not was_whole else step
