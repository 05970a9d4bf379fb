"""Requests to one registry: connections through the proxy, who we are, patience, and refusals as errors a user can act on.

A registry says in its 401 how to authenticate: Basic, or a token from another server (Bearer). Tokens end; then it says so again.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urljoin
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3 import exceptions

from umiak.errors import InputError, RetryError, UmiakError
from umiak.image.credentials import Login
from umiak.image.reference import Reference

TIMEOUT = urllib3.Timeout(connect=10, read=60)
REDIRECTS = 5
_PART = re.compile(r'(\w+)="([^"]*)"')
Headers = Mapping[str, str]


class RegistryError(UmiakError):
    """The registry said no. `code` is its HTTP status, for callers that expect one."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Http:
    """Safe to use from several threads."""

    def __init__(self, image: Reference, login: Login | None, plain: bool, actions: str) -> None:
        self._image, self._login, self._actions = image, login, actions
        self.root = f"{'http' if plain or image.is_local else 'https'}://{image.api}"
        self._pool = _pool(self.root)
        self._lock = threading.Lock()
        self._header: dict[str, str] = {}

    def request(
        self, method: str, address: str, body: Any = None, headers: Headers | None = None, stream: bool = False
    ) -> urllib3.BaseHTTPResponse:
        """One request; the answer whatever its status, but for a refusal of who we are."""
        url = urljoin(self.root, address)
        answer = self._send(method, url, body, headers, stream)
        if answer.status == 401:
            answer.drain_conn()
            with self._lock:
                self._header = self._authenticated(answer.headers.get("WWW-Authenticate", ""))
            answer = self._send(method, url, body, headers, stream)
        if answer.status in (401, 403):
            raise self._refused(answer)
        return answer

    def problem(self, answer: urllib3.BaseHTTPResponse, doing: str) -> UmiakError:
        """An answer that is neither good nor about who we are."""
        text = f"{self._image.host} could not {doing}: {answer.status} {_said(answer)}".rstrip()
        if answer.status in (429, 500, 502, 503, 504):
            return RetryError(f"{text}; try again later")
        return RegistryError(text, answer.status)

    def _send(
        self, method: str, url: str, body: Any, headers: Headers | None, stream: bool
    ) -> urllib3.BaseHTTPResponse:
        for _ in range(REDIRECTS):
            # Blobs often come from a storage service, which must not see our header.
            own = self._header if url.startswith(self.root) else {}
            answer = self._sent(method, url, body, {**own, **(headers or {})}, stream)
            if method != "GET" or answer.status not in (301, 302, 303, 307, 308):
                return answer
            answer.drain_conn()
            url = urljoin(url, answer.headers["Location"])
        raise RetryError(f"{self._image.host} redirects without end; try again later")

    def _sent(self, method: str, url: str, body: Any, headers: Headers, stream: bool) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.request(
                method,
                url,
                body=body,
                headers={"User-Agent": "umiak", **headers},
                timeout=TIMEOUT,
                retries=False,
                redirect=False,
                preload_content=not stream,
            )
        except exceptions.SSLError as error:
            raise InputError(
                f"no TLS connection to {self._image.host} ({error}); set SSL_CERT_FILE if its certificate is your own, "
                "or --plain-http if it speaks no TLS"
            ) from None
        except exceptions.HTTPError as error:
            raise RetryError(
                f"cannot reach the registry {self._image.host} ({error}); check its name, the network and HTTPS_PROXY"
            ) from None

    def _authenticated(self, challenge: str) -> dict[str, str]:
        kind, _, rest = challenge.partition(" ")
        parts = dict(_PART.findall(rest))
        basic = urllib3.make_headers(basic_auth=":".join(self._login)) if self._login else {}
        if kind.lower() != "bearer" or "realm" not in parts:
            return basic
        scope = f"repository:{self._image.repository}:{self._actions}"
        query = urlencode({"service": parts.get("service", ""), "scope": scope})
        answer = self._sent("GET", f"{parts['realm']}?{query}", None, basic, False)
        if answer.status != 200:
            raise self._refused(answer)
        found = json.loads(answer.data)
        return {"Authorization": f"Bearer {found.get('token') or found['access_token']}"}

    def _refused(self, answer: urllib3.BaseHTTPResponse) -> InputError:
        who = f"the login of {self._login[0]!r}" if self._login else "a request without a login"
        return InputError(
            f"{self._image.host} refuses {who} for {self._image.repository} ({self._actions}) {_said(answer)}".rstrip()
            + f"; log in with `docker login {self._image.host}`, or check the image's name and who may use it"
        )


def _pool(root: str) -> urllib3.PoolManager:
    scheme, _, host = root.partition("://")
    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    how: dict[str, Any] = {"maxsize": 16, "ssl_context": ssl.create_default_context()}
    if proxy is None or proxy_bypass(host):
        return urllib3.PoolManager(**how)
    return urllib3.ProxyManager(proxy if "://" in proxy else f"http://{proxy}", **how)


def _said(answer: urllib3.BaseHTTPResponse) -> str:
    """The registry's own words, if it has any."""
    try:
        errors = json.loads(answer.data)["errors"]
        return "(" + "; ".join(str(each.get("message") or each["code"]) for each in errors) + ")"
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
