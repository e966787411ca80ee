"""The command that serves the inspector."""

from __future__ import annotations

import socket
import webbrowser
from typing import Annotated

import typer

from jazzmine.cli.output import line, say, write
from jazzmine.cli.program import command
from jazzmine.cli.stores import Stores
from jazzmine.extras import extra

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


@command("inspect")
def inspect(
    stores: Stores,
    host: HostOption = "127.0.0.1",
    port: PortOption = 0,
    names: NamesOption = None,
    browse: Annotated[
        bool, typer.Option("--open", help="Open the address in the browser of this machine.")
    ] = False,
) -> None:
    """Serve web pages of what is stored, read-only, until Ctrl-C.

    Open the address that is printed: it has a token, without which nothing is shown.

    Example: `jazzmine inspect --open --memory redis://localhost`
    """
    import asyncio  # the other commands need none

    with extra("inspector", "the inspector"):
        from jazzmine.inspector.app import listen, serve
    messages, memory = stores.messages, stores.memory
    messages.require_current()
    if memory is not None:
        memory.require_current()
    if host not in _LOOPBACK:
        say(
            "Anyone who can read the traffic to this address can read all that is stored. From"
            " another machine, `ssh -L` to the loopback address is safer."
        )

    def ready(address: str) -> None:
        write(line(address))
        if browse:
            webbrowser.open(address)

    host_names = [*(names or ()), *([socket.gethostname()] if host in _ALL_ADDRESSES else ())]
    with listen(host, port) as listening:
        asyncio.run(
            serve(
                messages.config,
                None if memory is None else memory.config,
                listening=listening,
                host=host,
                names=[name.lower() for name in host_names],
                ready=ready,
            )
        )
