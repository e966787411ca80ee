"""The application, and the server that runs it."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias

import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from jazzmine._async.factory import new_message_store, new_working_memory
from jazzmine.config import BackendConfig
from jazzmine.core import MessageStore, WorkingMemoryStore
from jazzmine.errors import JazzmineError, NotFoundError, StoreUnavailableError
from jazzmine.inspector.filters import BadFilter
from jazzmine.inspector.pages import Pages, Stores
from jazzmine.inspector.security import LOOPBACK, STATIC, Access, Guard

_STATIC_FILES = Path(__file__).with_name("static")

_SECONDS_TO_END = 2

ErrorPage: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]


def create_app(stores: Stores, access: Access, hosts: Sequence[str] = LOOPBACK) -> ASGIApp:
    """Return the application.

    Args:
        stores: open stores, of the event loop that runs the application.
        access: the token.
        hosts: the accepted names in the `Host` header.
    """
    pages = Pages(stores)

    async def refuse(request: Request) -> Response:
        text = "Open the address that `jazzmine inspect` printed: it has the token that is missing."
        return pages.problem(403, "This page needs a token", text, str(request.url.path))

    app = Starlette(
        routes=[
            Route("/", pages.conversations, methods=["GET"]),
            Route("/conversation", pages.conversation, methods=["GET"]),
            Route("/conversation/new", pages.new_messages, methods=["GET"]),
            Route("/memory", pages.memory, methods=["GET"]),
            Route("/search", pages.search, methods=["GET"]),
            Route("/turn", pages.turn, methods=["GET"]),
            Route("/turns", pages.turns, methods=["GET"]),
            Route("/usage", pages.usage, methods=["GET"]),
            Mount(STATIC.rstrip("/"), StaticFiles(directory=_STATIC_FILES)),
        ],
        exception_handlers=_error_pages(pages),
    )
    return Guard(app, access, hosts, refuse)


def _error_pages(pages: Pages) -> dict[Any, ErrorPage]:
    """Return the page that each kind of error gets."""

    async def problem(request: Request, error: Exception) -> Response:
        if isinstance(error, NotFoundError):
            text = f"{str(error.args[0]).rstrip('.')}. It may have been deleted."
            return pages.problem(404, "Not found", text)
        if isinstance(error, HTTPException):
            return pages.problem(404, "Not found", "There is no such page.")
        if isinstance(error, BadFilter):
            return pages.problem(400, "This address is not valid", str(error))
        if isinstance(error, StoreUnavailableError | TimeoutError):
            query = f"?{request.url.query}" if request.url.query else ""
            text = f"{error} `jazzmine doctor` says what is wrong."
            again = request.url.path + query
            return pages.problem(503, "The store is not available", text, again)
        return pages.problem(500, "This could not be shown", f"{type(error).__name__}: {error}")

    # A traceback on the terminal is for errors of no other kind alone.
    kinds = (HTTPException, BadFilter, TimeoutError, JazzmineError, ValidationError, Exception)
    return dict.fromkeys(kinds, problem)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family)
    # The event loop sets this only on sockets that it makes itself. Without it, each page waits
    # for a delayed acknowledgement: 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def serve(
    messages: BackendConfig,
    memory: BackendConfig | None,
    *,
    listening: socket.socket,
    host: str,
    names: Sequence[str],
    ready: Callable[[str], None],
) -> None:
    """Serve the pages until the program is interrupted.

    Args:
        listening: the socket.
        host: the address or name that it listens on.
        names: further accepted names in the `Host` header.
        ready: called with the address of the first page, once the stores are open.

    Raises:
        StoreUnavailableError: a store cannot be reached.
    """
    async with AsyncExitStack() as stack:
        store: MessageStore = new_message_store(messages)
        await stack.enter_async_context(await store.open())
        working_memory: WorkingMemoryStore | None = None
        if memory is not None:
            working_memory = new_working_memory(memory)
            await stack.enter_async_context(await working_memory.open())
        access = Access(listening.getsockname()[1])
        kept_in = memory.storage if memory else ""
        stores = Stores(store, working_memory, messages.storage, kept_in)
        shown = f"[{host}]" if ":" in host else host
        app = create_app(stores, access, (*LOOPBACK, shown.lower(), *names))
        ready(f"http://{shown}:{listening.getsockname()[1]}/?token={access.token}")
        await _server(app).serve(sockets=[listening])


def _server(app: ASGIApp) -> uvicorn.Server:
    # No access log: it would contain the token.
    config = uvicorn.Config(
        app,
        access_log=False,
        http="h11",
        lifespan="off",
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_TO_END,
        ws="none",
    )
    return uvicorn.Server(config)
