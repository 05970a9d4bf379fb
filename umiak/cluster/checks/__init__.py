"""What could stop a cluster from being created, found before anything is: `run` asks every check and keeps their order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date

from umiak.cluster import stacks
from umiak.cluster.aws import Aws, AwsError, DeniedError
from umiak.cluster.checks import account, existing, named, offline, permissions, placement, quotas, reach, reused
from umiak.cluster.checks.finding import Context, Finding
from umiak.spec.cluster import ClusterSpec

Check = Callable[[Context], list[Finding]]

# Independent of each other, so they are asked at the same time.
ONLINE: dict[str, Check] = {
    "services": account.services,
    "zones": placement.zones,
    "node types": placement.instance_types,
    "kubernetes": placement.kubernetes_version,
    "name": existing.name,
    "network": existing.network,
    "key pair": named.key_pair,
    "kms key": named.kms_key,
    "existing": reused.check,
    "template": named.template,
    "quotas": quotas.check,
    "permissions": permissions.check,
    "boundary": permissions.bounded,
    "api server": reach.check,
}


def run(spec: ClusterSpec, aws: Aws | None, today: date) -> list[Finding]:
    """All findings. Without `aws` nothing is asked of anybody; bad credentials and a lost network are raised, not found."""
    findings = offline.check(spec)
    if aws is None:
        return findings + offline.kubernetes_version(spec, today) + existing.zero_nodes(spec, exists=None)
    caller = account.caller(aws)
    findings += account.credentials(spec, caller)
    region = account.region(aws)
    findings += region
    if any(finding.level == "error" for finding in region):
        return findings
    context = Context(spec, aws, caller, stacks.find(aws, spec.name), today)
    findings += existing.zero_nodes(spec, exists=context.exists)
    with ThreadPoolExecutor(max_workers=8) as pool:
        pending = [pool.submit(_asked, name, check, context) for name, check in ONLINE.items()]
        for future in pending:
            findings += future.result()
    return findings


def _asked(name: str, check: Check, context: Context) -> list[Finding]:
    try:
        return check(context)
    except DeniedError as error:
        return [
            Finding(
                "warning",
                name,
                f"not checked: these credentials are not allowed to do {error.action}",
                "attach policy-plan.json, which `umiak cluster render` writes, and run this again",
            )
        ]
    except AwsError as error:
        return [Finding("warning", name, f"not checked: {error}", "run this again; what AWS said is all that is known")]
