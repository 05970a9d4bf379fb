"""The public address of this machine, as AWS's own service sees it: https://checkip.amazonaws.com, which answers with it and
nothing else. Behind a proxy or a VPN it is theirs, as it would be for the API server."""

from __future__ import annotations

import ipaddress
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence

from umiak.errors import InputError, RetryError

SERVICE = "https://checkip.amazonaws.com"
# Another service that answers with the address alone, for networks that cannot reach AWS's.
VARIABLE = "UMIAK_CHECKIP_URL"
SECONDS = 5.0


class AddressChangedError(InputError):
    """An API server lets in addresses, and this machine's is no longer among them."""

    def __init__(self, context: str, cidrs: Sequence[str], now: str) -> None:
        super().__init__(
            f"the API server answers only to {', '.join(cidrs)}, and this machine is now {now} (as {service()} sees it): "
            "let it in with `umiak cluster up --api-access mine`, which takes a few minutes and costs nothing"
        )
        self.context, self.cidrs = context, tuple(cidrs)


def service() -> str:
    return os.environ.get(VARIABLE) or SERVICE


def mine() -> str:
    try:
        with urllib.request.urlopen(service(), timeout=SECONDS) as answer:
            return str(ipaddress.IPv4Address(answer.read(64).decode("ascii", errors="replace").strip()))
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise RetryError(
            f"cannot find out this machine's address from {service()} ({error}): give it yourself, like "
            "--api-access 203.0.113.7/32"
        ) from None


def covers(cidrs: Iterable[str], address: str) -> bool:
    return any(ipaddress.IPv4Address(address) in ipaddress.IPv4Network(cidr) for cidr in cidrs)
