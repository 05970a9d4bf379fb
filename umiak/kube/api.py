"""The one door to Kubernetes: requests to its API server. What it refuses is put into words by refusals.py.

Objects are plain dicts (objects.py). Nothing here knows of jobs.
"""

from __future__ import annotations

import json
import socket
import ssl
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3 import exceptions
from urllib3.response import BaseHTTPResponse

from umiak.errors import InputError, RetryError
from umiak.kube.kubeconfig import Access, Credentials
from umiak.kube.objects import Object
from umiak.kube.refusals import ApiError, no_trust, not_kubernetes, plain, refusal, translated

if TYPE_CHECKING:
    from websocket import WebSocket

PAGE = 500
CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
# A busy API server says so and when to come back; three times is patience enough.
_PATIENCE = urllib3.Retry(
    total=3,
    connect=0,
    read=0,
    redirect=3,
    status=3,
    other=0,
    status_forcelist=(429, 503),
    allowed_methods=None,
    backoff_factor=0.3,
    raise_on_status=False,
)


class Api:
    """The API server of one context. `close` it, or use it in a `with`."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._credentials: Credentials | None = None
        self._pool: urllib3.PoolManager | None = None
        self.date = ""
        """What the clock of the API server said with its last answer, as HTTP writes it."""

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.clear()

    def get(self, where: str, **query: Any) -> Object:
        return self._json("GET", where, query)

    def find(self, where: str) -> Object | None:
        """The object, or None if there is none."""
        try:
            return self.get(where)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def items(self, where: str, **query: Any) -> list[Object]:
        """All objects of a collection, in pages so that a large one does not hold the API server up."""
        found: list[Object] = []
        more: str | None = None
        while True:
            answer = self._json("GET", where, {**query, "limit": PAGE, "continue": more})
            found += answer.get("items") or []
            more = answer.get("metadata", {}).get("continue")
            if not more:
                return found

    def create(self, where: str, body: Object, *, dry_run: bool = False) -> Object:
        return self._json("POST", where, {"dryRun": "All" if dry_run else None}, body)

    def patch(self, where: str, body: Object) -> Object:
        """Merge `body` into the object: what it names is replaced, null removes."""
        return self._json("PATCH", where, {}, body, "application/merge-patch+json")

    def delete(self, where: str, **options: Any) -> Object:
        return self._json("DELETE", where, {}, {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    def text(self, where: str, seconds: float = READ_SECONDS, **query: Any) -> str:
        """What a path answers that is no object, like a log. The API server may have to ask a node, which may be lost."""
        response = self._send("GET", where, query, None, None, seconds=seconds)
        with translated(self.access):
            return response.data.decode("utf-8", errors="replace")

    def lines(self, where: str, **query: Any) -> Iterator[str]:
        """The same, line by line while it grows."""
        response = self._send("GET", where, query, None, None, stream=True)
        rest = b""
        try:
            with translated(self.access):
                for chunk in response.stream(65536, decode_content=True):
                    *whole, rest = (rest + chunk).split(b"\n")
                    yield from (line.decode("utf-8", errors="replace") for line in whole)
            if rest:
                yield rest.decode("utf-8", errors="replace")
        finally:
            response.close()

    def connect(self, where: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]) -> WebSocket:
        """A connection that stays open both ways, as a command in a pod needs it."""
        from websocket import WebSocketBadStatusException, WebSocketException, create_connection

        self._ready()
        assert self._credentials is not None
        options: dict[str, Any] = {"header": {"User-Agent": "umiak", **self._authorization()}}
        if self.access.server.startswith("https:"):
            options["sslopt"] = {"context": self._context(self._credentials)}
            if self.access.server_name:
                options["sslopt"]["server_hostname"] = self.access.server_name
        if proxy := self.access.proxy or _proxy_of_environment(self.access.server):
            parts = urlsplit(proxy)
            options |= {"http_proxy_host": parts.hostname, "http_proxy_port": parts.port, "proxy_type": parts.scheme}
        url = "ws" + self.access.server.removeprefix("http") + where + "?" + urlencode(query)
        try:
            return create_connection(
                url,
                timeout=READ_SECONDS,
                subprotocols=protocols,
                suppress_origin=True,
                skip_utf8_validation=True,
                **options,
            )
        except WebSocketBadStatusException as error:
            raise refusal(self.access, "GET", where, error.status_code, error.resp_body or b"") from None
        except ssl.SSLError as error:
            raise no_trust(self.access, str(error)) from None
        except (OSError, WebSocketException) as error:
            raise RetryError(f"cannot reach {self.access.server}{where}: {plain(error)}") from None

    def _json(
        self, method: str, where: str, query: Mapping[str, Any], body: Object | None = None, kind: str | None = None
    ) -> Object:
        response = self._send(method, where, query, body, kind)
        with translated(self.access):
            raw = response.data
        try:
            answer = json.loads(raw)
        except ValueError:
            raise not_kubernetes(self.access) from None
        if not isinstance(answer, dict):
            raise not_kubernetes(self.access)
        return answer

    def _send(
        self,
        method: str,
        where: str,
        query: Mapping[str, Any],
        body: Object | None,
        kind: str | None,
        stream: bool = False,
        seconds: float = READ_SECONDS,
    ) -> BaseHTTPResponse:
        """One request; once more with new credentials if the ones we kept are no longer good."""
        words = urlencode({key: value for key, value in query.items() if value is not None})
        url = self.access.server + where + (f"?{words}" if words else "")
        for attempt in (1, 2):
            kept = self._credentials is not None
            pool = self._ready()
            headers = {"Accept": "application/json, */*", "User-Agent": "umiak", **self._authorization()}
            if body is not None:
                headers["Content-Type"] = kind or "application/json"
            timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=None if stream else seconds)
            with translated(self.access):
                response = pool.request(
                    method,
                    url,
                    body=None if body is None else json.dumps(body).encode(),
                    headers=headers,
                    timeout=timeout,
                    preload_content=not stream,
                    retries=_PATIENCE,
                )
            self.date = response.headers.get("Date", "")
            if response.status == 401 and attempt == 1 and kept and (self.access.plugin or self.access.token_file):
                self._credentials = None
                continue
            if response.status >= 400:
                with translated(self.access):
                    raise refusal(self.access, method, where, response.status, response.data)
            return response
        raise AssertionError("unreachable")

    def _ready(self) -> urllib3.PoolManager:
        if self._credentials is None or not self._credentials.fresh(datetime.now(UTC)):
            before, self._credentials = self._credentials, self.access.credentials()
            if self._pool is None or before is None or before.certificate != self._credentials.certificate:
                self._pool = self._make_pool(self._credentials)
        assert self._pool is not None
        return self._pool

    def _make_pool(self, credentials: Credentials) -> urllib3.PoolManager:
        options: dict[str, Any] = {"maxsize": 4, "socket_options": _kept_alive()}
        if self.access.server.startswith("https:"):
            options["ssl_context"] = self._context(credentials)
            if self.access.server_name:
                options |= {"server_hostname": self.access.server_name, "assert_hostname": self.access.server_name}
        proxy = self.access.proxy or _proxy_of_environment(self.access.server)
        if proxy:
            if urlsplit(proxy).scheme not in ("http", "https"):
                raise InputError(f"the proxy {proxy} of context {self.access.context!r} must be http:// or https://")
            return urllib3.ProxyManager(proxy, **options)
        return urllib3.PoolManager(**options)

    def _context(self, credentials: Credentials) -> ssl.SSLContext:
        access = self.access
        try:
            context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
        except (ssl.SSLError, ValueError):
            raise InputError(
                f"the certificate-authority of context {access.context!r} is not a certificate; write the kubeconfig again"
            ) from None
        if access.insecure:
            # The kubeconfig says so; a warning with every request would not make it safer.
            urllib3.disable_warnings(exceptions.InsecureRequestWarning)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if credentials.certificate:
            # ssl reads keys from files only; these two are gone before anybody else could look.
            with tempfile.TemporaryDirectory() as directory:
                names = [Path(directory) / "cert.pem", Path(directory) / "key.pem"]
                for name, content in zip(names, credentials.certificate, strict=True):
                    name.write_bytes(content)
                try:
                    context.load_cert_chain(str(names[0]), str(names[1]))
                except (ssl.SSLError, ValueError):
                    raise InputError(
                        f"the client certificate and key of user {access.user!r} do not belong together; "
                        "write the kubeconfig again"
                    ) from None
        return context

    def _authorization(self) -> dict[str, str]:
        credentials = self._credentials
        if credentials is None:
            return {}
        if credentials.token:
            return {"Authorization": f"Bearer {credentials.token}"}
        if credentials.basic:
            return urllib3.make_headers(basic_auth=":".join(credentials.basic))
        return {}


def _kept_alive() -> list[tuple[int, int, int]]:
    """A log may be silent for hours; only the kernel can tell then that the other side is gone."""
    wanted = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            wanted.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), *wanted]


def _proxy_of_environment(server: str) -> str | None:
    """HTTPS_PROXY and NO_PROXY, by Python's rules."""
    parts = urlsplit(server)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)
