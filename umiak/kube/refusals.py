"""What goes wrong on the way to an API server, or is said by it, as errors a user can act on."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator

from urllib3 import exceptions

from umiak import address
from umiak.errors import InputError, RetryError, UmiakError
from umiak.kube.kubeconfig import Access


class ApiError(UmiakError):
    """The API server said no. `code` is its HTTP status, for callers that expect one: 404, 409."""

    def __init__(self, message: str, code: int, reason: str, exit_code: int) -> None:
        super().__init__(message)
        self.code, self.reason, self.exit_code = code, reason, exit_code


@contextlib.contextmanager
def translated(access: Access) -> Iterator[None]:
    where = f"the Kubernetes API server {access.server} (context {access.context!r})"
    try:
        yield
    except exceptions.LocationParseError:
        raise InputError(f"{access.server!r} is not an address: correct `server` in the kubeconfig") from None
    except exceptions.HTTPError as error:
        cause: BaseException = getattr(error, "reason", None) or error
        if isinstance(cause, exceptions.ProxyError):
            raise RetryError(f"the proxy before {where} does not answer: check proxy-url or HTTPS_PROXY") from None
        if isinstance(cause, exceptions.SSLError):
            raise no_trust(access, str(cause)) from None
        # To urllib3 a refused connection is a kind of timeout; to a user it is not.
        if isinstance(cause, exceptions.TimeoutError) and not isinstance(cause, exceptions.NewConnectionError):
            if moved := _moved(access):
                raise moved from None
            raise RetryError(f"{where} does not answer: check the network, the VPN and that the cluster runs") from None
        if access.made.get("connect"):
            raise RetryError(
                f"nothing leads to {where} now: run `umiak cluster connect` in another terminal and leave it running, or put it "
                "before the command: `umiak cluster connect -- umiak job …`"
            ) from None
        raise RetryError(
            f"cannot reach {where}: {plain(cause)}; check the network, the VPN and that the cluster runs"
        ) from None


def _moved(access: Access) -> UmiakError | None:
    """Whether nobody answers because our address is another than those that `umiak cluster up` let in."""
    cidrs = [part for part in access.made.get("api_cidrs", "").split(",") if part]
    if not cidrs:
        return None
    try:
        now = address.mine()
    except RetryError:
        return None
    if address.covers(cidrs, now):
        return None
    return address.AddressChangedError(access.context, cidrs, now)


def no_trust(access: Access, text: str) -> UmiakError:
    named = f"{access.server} (context {access.context!r})"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return InputError(
            f"the certificate of {named} does not belong to the kubeconfig's cluster: is this the right context? "
            "If the cluster was recreated, write the kubeconfig again"
        )
    if "match either of" in text or "doesn't match" in text:
        return InputError(
            f"the certificate of {named} is for other names ({plain(Exception(text))}): "
            "write one of them as tls-server-name in the kubeconfig"
        )
    if "ALERT" in text.upper():
        return InputError(f"{named} refuses the client certificate of user {access.user!r}: write a new one")
    return RetryError(f"no TLS connection to {named}: {plain(Exception(text))}")


def not_kubernetes(access: Access) -> UmiakError:
    return InputError(
        f"{access.server} answers, but not like a Kubernetes API server: check `server` in the kubeconfig and the proxy"
    )


def refusal(access: Access, method: str, where: str, code: int, raw: bytes) -> UmiakError:
    """A Status of the API server, as an error."""
    try:
        status = json.loads(raw)
        message, reason = str(status.get("message") or ""), str(status.get("reason") or "")
    except (ValueError, AttributeError):
        message, reason = raw.decode(errors="replace").strip()[:200], ""
    if code == 401:
        return ApiError(
            f"{access.server} does not accept the credentials of user {access.user!r} (context {access.context!r}): "
            "they have expired or are wrong; sign in again (on AWS: `aws sso login`) or write the kubeconfig again",
            code,
            reason,
            InputError.exit_code,
        )
    if code == 403:
        return ApiError(_forbidden(message, where), code, reason, InputError.exit_code)
    if code == 404 and (missing := re.search(r'namespaces "([^"]+)" not found', message)):
        return ApiError(no_namespace(missing[1]), code, "NoNamespace", InputError.exit_code)
    if code == 429 or code >= 500:
        return ApiError(
            f"the Kubernetes API server cannot answer now ({code} {reason or message}); try again",
            code,
            reason,
            RetryError.exit_code,
        )
    return ApiError(f"Kubernetes refuses {method} {where}: {message or code}", code, reason, InputError.exit_code)


def no_namespace(name: str) -> str:
    return f"there is no namespace {name!r}: create it (kubectl create namespace {name}) or choose another with -n"


def _forbidden(message: str, where: str) -> str:
    """`jobs.batch is forbidden: User "x" cannot create resource "jobs" in API group "batch" in the namespace "y"`."""
    said = re.search(r'User "([^"]*)" cannot (\w+) resource "([^"]+)"(.*)', message, re.DOTALL)
    if not said:
        return f"Kubernetes forbids {where}: {message}"
    user, verb, resource, rest = said.groups()
    space = re.search(r'in the namespace "([^"]+)"', rest)
    place = f"in namespace {space[1]}" if space else "in this cluster"
    option = f" -n {space[1]}" if space else ""
    return (
        f"user {user!r} may not {verb} {resource} {place}: ask an administrator for a role that allows it "
        f"(kubectl auth can-i {verb} {resource}{option} shows when it does)"
    )


def plain(error: BaseException) -> str:
    """The last, most telling part of `<urllib3…>: Failed to establish a new connection: [Errno 111] Connection refused`."""
    text = str(error.args[-1] if error.args else error)
    return re.sub(r"^.*\[Errno -?\d+\] | \(_ssl\.c:\d+\)", "", text).strip().rstrip(")")
