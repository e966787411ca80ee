"""The options of a filter of traces, which several commands have."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from jazzmine.cli.options import in_ms
from jazzmine.cli.output import error_text
from jazzmine.records.usage import TraceFilter

__all__ = ["AgentOption", "UserOption", "filtered"]

UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="Of this user.")]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Of this agent.")]


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a filter, in the place of its parameter `where`."""

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        fields = {name: given.pop(name) for name in _OPTIONS}
        command(where=_filter(fields), **given)

    own = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for each in own.parameters.values():
        if each.name != "where":
            parameters.append(each)
            continue
        for name, option in _OPTIONS.items():
            parameters.append(each.replace(name=name, annotation=option, default=None))
    vars(with_options)["__signature__"] = own.replace(parameters=parameters)
    return with_options


def _filter(fields: dict[str, Any]) -> TraceFilter:
    try:
        return TraceFilter(**{name: value for name, value in fields.items() if value is not None})
    except ValueError as error:
        raise typer.BadParameter(error_text(error)) from None


def _tool(text: str) -> dict[str, Any]:
    return _object(text) if text.lstrip().startswith(("{", "[")) else {"tool_name": text}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise typer.BadParameter('it is a JSON object, such as {"success": false}')
    return value


# By the fields of `TraceFilter`.
_OPTIONS: dict[str, Any] = {
    "user_id": UserOption,
    "agent_id": AgentOption,
    "conversation_id": Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="Of this conversation.")
    ],
    "intent": Annotated[
        str | None, typer.Option("--intent", metavar="INTENT", help="With this intent.")
    ],
    "started_from": Annotated[
        int | None,
        typer.Option("--since", metavar="DATE|AGE", parser=in_ms, help="Begun then or later."),
    ],
    "started_until": Annotated[
        int | None,
        typer.Option("--until", metavar="DATE|AGE", parser=in_ms, help="Begun before then."),
    ],
    "min_total_tokens": Annotated[
        int | None,
        typer.Option("--min-tokens", metavar="N", help="That took so many tokens or more."),
    ],
    "min_latency_ms": Annotated[
        int | None, typer.Option("--min-latency", metavar="MS", help="That took so long or longer.")
    ],
    "has_errors": Annotated[
        bool | None, typer.Option("--errors/--no-errors", help="With errors, or without any.")
    ],
    "tool": Annotated[
        Any,
        typer.Option(
            "--tool",
            metavar="NAME|JSON",
            parser=_tool,
            help='With a call of this tool, or such a call: `{"success": false}`.',
        ),
    ],
    "llm_call": Annotated[
        Any,
        typer.Option(
            "--llm-call",
            metavar="JSON",
            parser=_object,
            help='With such a call: `{"model": "small"}`.',
        ),
    ],
}
