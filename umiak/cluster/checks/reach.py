"""Can this machine talk to the API server afterwards? Found out before anything is billed."""

from __future__ import annotations

from umiak import address
from umiak.cluster import connect
from umiak.cluster.checks.finding import Context, Finding
from umiak.errors import InputError, RetryError


def _by_plugin() -> list[Finding]:
    try:
        connect.plugin()
    except InputError as error:
        text = f"`umiak cluster connect` needs {connect.PLUGIN}, which is not installed here"
        return [Finding("error", "api server", text, str(error))]
    return [Finding("info", "api server", "you reach it with `umiak cluster connect`")]


def check(context: Context) -> list[Finding]:
    cidrs = context.spec.kubernetes.api_cidrs
    if context.spec.kubernetes.bastion:
        return _by_plugin()
    if not cidrs:
        return []
    try:
        here = address.mine()
    except RetryError:
        text = f"whether this machine is in {', '.join(cidrs)} was not checked: {address.service()} does not say its address"
        return [Finding("info", "api server", text)]
    if address.covers(cidrs, here):
        return [Finding("info", "api server", f"it answers to this machine, {here}")]
    return [
        Finding(
            "warning",
            "api server",
            f"it will answer to {', '.join(cidrs)}, and this machine is {here}: `umiak cluster up` could make the cluster but "
            "not finish here, and `umiak job` could not reach it",
            "let this machine in: `umiak cluster up --api-access mine`; or run these commands where the addresses are",
        )
    ]
