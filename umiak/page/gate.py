"""Who may ask: a browser that came with the token once and has had a cookie since, at our own address and from no other page."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable

from starlette.datastructures import Headers, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Gate:
    """In front of everything else. `hosts` are what the Host header may say."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], scheme: str, port: int, token: str) -> None:
        self.app, self.hosts, self.scheme = app, frozenset(hosts), scheme
        self._token: str | None = token
        self._session = secrets.token_urlsafe(32)
        # Cookies know no ports: two pages on one host must not take each other's.
        self._cookie = f"umiak-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.encode().lower() for name in HEADERS}
                kept = [(name, value) for name, value in message["headers"] if name.lower() not in names]
                message["headers"] = kept + [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        answer = self._refusal(scope)
        await (answer or self.app)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.getlist("host") not in [[host] for host in self.hosts]:
            return PlainTextResponse("This address is not the page's own.", 403)
        origin = headers.get("origin")
        if origin is not None and origin not in {f"{self.scheme}://{host}" for host in self.hosts}:
            return PlainTextResponse("Another page may not ask.", 403)
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and scope["path"] != "/":
            return PlainTextResponse("Another page may not ask.", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("The page only reads.", 405)
        given = QueryParams(scope["query_string"]).get("token")
        if scope["path"] == "/" and given is not None:
            return self._exchange(given)
        if not self._known(headers.get("cookie", "")):
            return PlainTextResponse("Open the address that umiak page printed: it lets this browser in.", 401)
        return None

    def _exchange(self, given: str) -> Response:
        """The token for a cookie, once."""
        if self._token is None or not hmac.compare_digest(given.encode(), self._token.encode()):
            return PlainTextResponse(
                "This token was used, or is not the page's. Start umiak page again for a new one.", 401
            )
        self._token = None
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._cookie, self._session, httponly=True, samesite="strict", secure=self.scheme == "https", path="/"
        )
        return answer

    def _known(self, cookies: str) -> bool:
        pairs = (each.strip().partition("=") for each in cookies.split(";"))
        return any(
            name == self._cookie and hmac.compare_digest(value.encode(), self._session.encode())
            for name, _, value in pairs
        )
