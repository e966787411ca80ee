"""The command that serves the inspector."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from jazzmine.cli.options import (
    MemoryOption,
    StoreOption,
    given_url,
    memory_config,
    memory_url,
    refusals,
    require_memory,
    require_messages,
    store_config,
)
from jazzmine.cli.output import line, say, write
from jazzmine.extras import extra

__all__ = ["add_commands"]

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_ALL_ADDRESSES = ("0.0.0.0", "::")

HostOption = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")
]
PortOption = Annotated[
    int, typer.Option("--port", "-p", min=0, max=65535, help="The port; 0 is a free one.")
]
NamesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="A further name by which browsers reach it, without a port. May be repeated.",
    ),
]


def add_commands(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("inspect")(inspect)


def inspect(
    context: typer.Context,
    host: HostOption = "127.0.0.1",
    port: PortOption = 0,
    names: NamesOption = None,
    browse: Annotated[
        bool, typer.Option("--open", help="Open the address in the browser of this machine.")
    ] = False,
    store: StoreOption = None,
    memory: MemoryOption = None,
) -> None:
    """Serve web pages of what is stored, read-only, until Ctrl-C.

    Open the address that is printed: it has a token, without which nothing is shown.

    Example: `jazzmine inspect --open --memory redis://localhost`
    """
    import asyncio  # the other commands need none

    messages = store_config(given_url(context, store))
    url = memory_url(context, memory)
    remembered = None if url is None else memory_config(url)
    serve = _server()
    require_messages(messages)
    if remembered is not None:
        require_memory(remembered)
    if host not in _LOOPBACK:
        say(
            "Whoever can read the traffic to this address can read all that is stored. From another"
            " machine, `ssh -L` to the loopback address is safer."
        )

    def ready(address: str) -> None:
        write(line(address))
        if browse:
            webbrowser.open(address)

    known = [*(names or ()), *([socket.gethostname()] if host in _ALL_ADDRESSES else ())]
    with refusals():
        asyncio.run(
            serve(
                messages,
                remembered,
                host=host,
                port=port,
                names=[name.lower() for name in known],
                ready=ready,
            )
        )


def _server() -> Callable[..., Coroutine[Any, Any, None]]:
    with extra("inspector", "the inspector"):
        from jazzmine.inspector.app import serve
    return serve
