"""The program: its commands, the options before a command's name, and its exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from typer import rich_utils
from typer.core import TyperGroup

import jazzmine
from jazzmine.cli.adopting import add_commands as add_adopting
from jazzmine.cli.copying import add_commands as add_copying
from jazzmine.cli.deleting import add_commands as add_deleting
from jazzmine.cli.doctor import add_commands as add_doctor
from jazzmine.cli.inspecting import add_commands as add_inspecting
from jazzmine.cli.moving import add_commands as add_moving
from jazzmine.cli.options import (
    ItemsOption,
    MemoryOption,
    StoreOption,
    Stores,
    unavailable,
)
from jazzmine.cli.output import Refused, block, error_text, errors, errors_of
from jazzmine.cli.reading import add_commands as add_reading
from jazzmine.cli.rekeying import add_commands as add_rekeying
from jazzmine.cli.searching import add_commands as add_searching
from jazzmine.cli.turns import add_commands as add_turns
from jazzmine.errors import ConfigurationError, InvalidAddressError, JazzmineError

__all__ = ["app"]

REFUSED, USAGE, UNAVAILABLE = 1, 2, 3
INTERRUPTED, PIPE_CLOSED = 130, 141  # as for other programs that a signal ends


class Program(TyperGroup):
    """The commands, whose errors become one line on standard error and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            with errors_of("standard output"):
                sys.stdout.flush()
        except BrokenPipeError:
            # What reads the output wants no more. Nothing is left to be flushed at the exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from None
        except KeyboardInterrupt:
            errors().print()
            raise typer.Exit(INTERRUPTED) from None
        except (Refused, JazzmineError, ValidationError, ImportError, OSError, ValueError) as error:
            errors().print(f"jazzmine: {block(error_text(error))}", style="red")
            raise typer.Exit(_status(error)) from None
        return result

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _hide_types_of_flags(command.get_params(ctx))
        return command

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options that stand before a command."""
        params = super().get_params(ctx)
        _hide_types_of_flags(params)
        return params


def _hide_types_of_flags(params: Iterable[Any]) -> None:
    # Typer's help says "<bool>" beside an option that takes no value.
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""


def _status(error: Exception) -> int:
    if isinstance(error, (InvalidAddressError, ImportError)):
        return USAGE
    if isinstance(error, ConfigurationError):
        return REFUSED
    return UNAVAILABLE if unavailable(error) else REFUSED


if os.environ.get("NO_COLOR"):
    rich_utils.COLOR_SYSTEM = None  # Rich leaves bold text bold

app: typer.Typer = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"jazzmine {jazzmine.__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit status: 0 done; 1 not found, refused or different; 2 wrong usage; 3 not available."
)
def _stores(
    context: typer.Context,
    store: StoreOption = None,
    memory: MemoryOption = None,
    items: ItemsOption = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """See what an agent has stored, move it, and find out what is wrong.

    Stores are named by URLs: `json:messages.json`, `sqlite:agent.db`,
    `postgresql://USER@HOST/DB?schema=agents`, `mongodb://HOST/DB`; a working memory by
    `sqlite:agent.db`, `postgresql://…` or `redis://HOST`; a long-term memory by
    `sqlite:agent.db`, `postgresql://…` or `mongodb://HOST/DB`.

    Example:

    `export JAZZMINE_MESSAGE_STORE=json:messages.json`

    `jazzmine ls`
    """
    context.obj = Stores(store, memory, items)


_ADDERS = (
    add_reading,
    add_turns,
    add_searching,
    add_moving,
    add_copying,
    add_adopting,
    add_deleting,
    add_doctor,
    add_rekeying,
    add_inspecting,
)
for _add_commands in _ADDERS:
    _add_commands(app)
