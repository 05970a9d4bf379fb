"""What to do when a resource fails: from what AWS says to what a person can do. Pure."""

from __future__ import annotations

import re

# What AWS said → what helps. The first that fits counts.
RULES: tuple[tuple[str, str], ...] = (
    (
        r"not authorized|AccessDenied|UnauthorizedOperation|is not allowed",
        "attach the policies that `umiak cluster render` writes, or ask your administrator to",
    ),
    (
        r"LimitExceeded|[Qq]uota|maximum number|limit has been reached",
        "ask for more (Service Quotas in the AWS console), or remove what is not needed",
    ),
    (r"UnsupportedAvailabilityZone|cannot hold|targeted availability zone", "choose other zones in cluster.yaml"),
    (
        r"InsufficientInstanceCapacity|UnfulfillableCapacity|not have sufficient",
        "AWS has no such machine free in that zone now; choose other nodes.types or another first zone",
    ),
    (r"is not offered|unsupported.*instance type", "choose other nodes.types in cluster.yaml"),
    (r"already exists", "something of that name already exists; remove it, or choose another name"),
    (r"custom-named resource requires replacing", "this cannot be changed in place: undo it in cluster.yaml"),
    (r"has dependencies|has a dependent object|DependencyViolation", "something else still uses it"),
    (r"Throttling|Rate exceeded", "AWS was busy"),
)


def what_helps(reason: str) -> str:
    return next((advice for pattern, advice in RULES if re.search(pattern, reason)), "look at what AWS says above")
