"""The program: the options before a command's name, and its exit statuses."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

import typer
from pydantic import ValidationError
from typer.core import TyperCommand, TyperGroup

import jazzmine
from jazzmine.cli.options import (
    FILTER_OPTIONS,
    STORE_OPTIONS,
    ItemsOption,
    MemoryOption,
    StoreOption,
    trace_filter,
)
from jazzmine.cli.output import Refused, console, error_text, without_passwords
from jazzmine.cli.stores import Stores, unavailable
from jazzmine.errors import ConfigurationError, InvalidAddressError, JazzmineError
from jazzmine.inspector.text import visible
from jazzmine.records.usage import TraceFilter

REFUSED, USAGE, UNAVAILABLE = 1, 2, 3
INTERRUPTED, PIPE_CLOSED = 130, 141  # as for other programs that a signal ends

Function: TypeAlias = Callable[..., None]


@contextmanager
def _statuses() -> Iterator[None]:
    """Make errors one line on standard error and an exit status."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What reads the output wants no more. Nothing is left to be flushed at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(PIPE_CLOSED) from None
    except KeyboardInterrupt:
        console(stderr=True).print()
        raise typer.Exit(INTERRUPTED) from None
    except (Refused, JazzmineError, ValidationError, ImportError, OSError, ValueError) as error:
        console(stderr=True).print(f"jazzmine: {visible(error_text(error))}", style="red")
        raise typer.Exit(_status(error)) from None
    except Exception as error:
        if "message" in vars(error):  # an error of Typer, which names the argument
            vars(error)["message"] = without_passwords(str(vars(error)["message"]))
        raise


def _status(error: Exception) -> int:
    if isinstance(error, (InvalidAddressError, ImportError)):
        return USAGE
    if isinstance(error, ConfigurationError):
        return REFUSED
    return UNAVAILABLE if unavailable(error) else REFUSED


class _WithFlags:
    """A command whose help shows no type beside an option that takes no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_WithFlags, TyperCommand):
    """A command."""


class Program(_WithFlags, TyperGroup):
    """The commands."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _statuses():
            return super().invoke(ctx)


app: typer.Typer = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Parameters of commands that are several options: what makes them, and these, by their type.
_COMPOSED: dict[Any, tuple[Callable[..., Any], dict[str, Any]]] = {
    Stores: (Stores, STORE_OPTIONS),
    TraceFilter: (trace_filter, FILTER_OPTIONS),
}


def command(name: str) -> Callable[[Function], Function]:
    """Make a function a command; its parameters `Stores` and `TraceFilter` are options."""

    def add(function: Function) -> Function:
        signature = inspect.signature(function, eval_str=True)
        declared = signature.parameters.values()
        composed = {
            each.name: _COMPOSED[each.annotation]
            for each in declared
            if each.annotation in _COMPOSED
        }

        @functools.wraps(function)
        def run(**values: Any) -> None:
            for parameter, (make, options) in composed.items():
                values[parameter] = make(**{option: values.pop(option) for option in options})
            function(**values)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [each for each in declared if each.name not in composed]
        for _, options in composed.values():
            parameters += [
                inspect.Parameter(option, kind, default=None, annotation=annotation)
                for option, annotation in options.items()
            ]
        vars(run)["__signature__"] = signature.replace(parameters=parameters)
        app.command(name, cls=Command)(run)
        return function

    return add


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"jazzmine {jazzmine.__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit status: 0 done; 1 not found, refused or different; 2 wrong usage; 3 not available."
)
def _before_the_command(
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
    given = {"store": store, "memory": memory, "items": items}
    context.default_map = {each.name: given for each in app.registered_commands if each.name}
