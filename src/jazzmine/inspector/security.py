"""Checks of each request, and the headers of each response."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOOPBACK", "STATIC", "Access", "guarded"]

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
        self._cookie_name = f"jazzmine-inspector-{port}"
        self._cookie = secrets.token_urlsafe(32)

    def has_cookie(self, request: Request) -> bool:
        """Whether the request comes from a browser that has opened the address before."""
        return _equal(request.cookies.get(self._cookie_name, ""), self._cookie)

    def is_token(self, token: str) -> bool:
        """Whether this is the token."""
        return _equal(token, self.token)

    def set_cookie(self, response: Response) -> None:
        """Give the browser the cookie, until it is closed."""
        response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")


def _equal(token: str, expected: str) -> bool:
    return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), expected.encode())


def guarded(
    app: ASGIApp,
    access: Access,
    hosts: Sequence[str],
    refuse: Callable[[Request], Awaitable[Response]],
) -> ASGIApp:
    """Return the application with the checks before it.

    Args:
        hosts: the names in the `Host` header that are accepted. A page of another site whose
            name was made to resolve to this machine sends that name.
        refuse: makes the answer to a request without the token and the cookie.
    """
    checked = _Guard(app, access, refuse)
    return _Headers(_Hosts(checked, hosts))


class _Hosts:
    """Refuses other names in the `Host` header, and says which option accepts one."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "") if scope["type"] == "http" else ""
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if scope["type"] != "http" or name.lower() in self._hosts:
            await self._app(scope, receive, send)
            return
        text = "Invalid host header: `jazzmine inspect --name NAME` accepts a further name of it"
        await PlainTextResponse(text, 400)(scope, receive, send)


class _Headers:
    """Adds the headers to each response, also to those about errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class _Guard:
    """Refuses whatever is not a read by a browser that has opened the printed address."""

    def __init__(
        self, app: ASGIApp, access: Access, refuse: Callable[[Request], Awaitable[Response]]
    ) -> None:
        self._app = app
        self._access = access
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the inspector serves HTTP only, not {scope['type']}")
        response = await self._answer(Request(scope))
        await (response or self._app)(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("Read only", 405, {"Allow": "GET, HEAD"})
        if request.url.path.startswith(STATIC):
            return None
        token = request.query_params.get("token")
        if token is not None:
            if self._access.is_token(token):
                return self._enter(request)
        elif self._access.has_cookie(request):
            return None
        return await self._refuse(request)

    def _enter(self, request: Request) -> Response:
        # The address without the token, so that it is not in bookmarks and shared views. It is
        # relative, as the links of the pages are.
        path = "./" + quote(request.url.path.rpartition("/")[2])
        rest = [(name, value) for name, value in parse_qsl(request.url.query) if name != "token"]
        response = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
        self._access.set_cookie(response)
        return response
