"""Checks of each request, and the headers of each response."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

# The files of the package, in which there is no stored data.
STATIC = "/static/"

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Access:
    """The token of the address that is printed, and the cookie that takes its place.

    Args:
        port: the port of the server. Browsers send the cookies of a host to each of its ports,
            so the name of the cookie contains it.
    """

    def __init__(self, port: int) -> None:
        self.token: str = secrets.token_urlsafe(32)
        self.cookie_name: str = f"jazzmine-inspector-{port}"
        self.cookie: str = secrets.token_urlsafe(32)


def _equal(token: str, expected: str) -> bool:
    return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), expected.encode())


class Guard:
    """An application behind checks of each request, with headers on each response.

    Args:
        app: the application.
        access: the token.
        hosts: the names in the `Host` header that are accepted. A page of another site whose
            name was made to resolve to this machine sends that name.
        refuse: makes the answer to a request without the token and the cookie.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        hosts: Sequence[str],
        refuse: Callable[[Request], Awaitable[Response]],
    ) -> None:
        self._app, self._access, self._hosts, self._refuse = app, access, hosts, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer = await self._answer(Request(scope)) or self._app
        await answer(scope, receive, send_with_headers)

    async def _answer(self, request: Request) -> Response | None:
        """Return the answer to a request that the application does not get."""
        host = request.headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name.lower() not in self._hosts:
            text = (
                "Invalid host header: `jazzmine inspect --name NAME` accepts a further name of it"
            )
            return PlainTextResponse(text, 400)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("Read only", 405, {"Allow": "GET, HEAD"})
        if request.url.path.startswith(STATIC):
            return None
        token, access = request.query_params.get("token"), self._access
        if token is None and _equal(request.cookies.get(access.cookie_name, ""), access.cookie):
            return None
        if token is not None and _equal(token, access.token):
            return self._enter(request)
        return await self._refuse(request)

    def _enter(self, request: Request) -> Response:
        # The address without the token, so that it is not in bookmarks and shared views. It is
        # relative, as the links of the pages are.
        path = "./" + quote(request.url.path.rpartition("/")[2])
        rest = [(name, value) for name, value in parse_qsl(request.url.query) if name != "token"]
        response = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
        cookie = self._access.cookie_name, self._access.cookie
        response.set_cookie(*cookie, httponly=True, samesite="strict")  # until the browser ends
        return response
