"""The options that several commands have."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from jazzmine.cli.output import error_text
from jazzmine.cli.stores import ITEMS, MEMORY, MESSAGES, Kind
from jazzmine.records.usage import TraceFilter

# By the letter of an age.
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _url_of(kind: Kind[Any]) -> Any:
    text = f"The {kind.name}. Better in {kind.variable}, where no password shows."
    return typer.Option(kind.option, metavar="URL", help=text, show_default=False)


def in_ms(text: str) -> int:
    """Return a time in ms: an integer is one, else it is an age, or an ISO date or time.

    A date without a zone is in UTC. An age is a number of seconds, minutes, hours, days or weeks.
    """
    try:
        return int(text)
    except ValueError:
        pass
    if age := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        return round((time.time() - int(age[1]) * _SECONDS[age[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise typer.BadParameter(
            "it is a date (2026-01-31), a time (2026-01-31T08:00Z), an age (30m, 12h, 7d, 2w), or a"
            " number of ms since 1970"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is deleted, unless `--yes` was given; end the program if it is a no."""
    if not yes:
        typer.confirm(f"{question} (--yes does not ask)", abort=True, err=True)


JSONOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, one object on a line, for other programs.")
]
FullOption = Annotated[bool, typer.Option("--full", help="Show long texts in full.")]
AfterOption = Annotated[
    str | None,
    typer.Option("--after", metavar="ID", help="Begin after this one: the next page."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, metavar="N", help="The largest number to show.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ConversationArgument = Annotated[
    str, typer.Argument(metavar="CONVERSATION", help="The id of a conversation.")
]
UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="Of this user.")]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Of this agent.")]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", metavar="ID", help="Of this conversation.")
]
SinceOption = Annotated[
    int | None,
    typer.Option("--since", metavar="DATE|AGE", parser=in_ms, help="Begun then or later."),
]
UntilOption = Annotated[
    int | None, typer.Option("--until", metavar="DATE|AGE", parser=in_ms, help="Begun before then.")
]

StoreOption = Annotated[str | None, _url_of(MESSAGES)]
MemoryOption = Annotated[str | None, _url_of(MEMORY)]
ItemsOption = Annotated[str | None, _url_of(ITEMS)]

# By the names of the arguments of `Stores`.
STORE_OPTIONS: dict[str, Any] = {
    "store": StoreOption,
    "memory": MemoryOption,
    "items": ItemsOption,
}


def trace_filter(**fields: Any) -> TraceFilter:
    """Return the filter that options give; a wrong one is a wrong usage."""
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
FILTER_OPTIONS: dict[str, Any] = {
    "user_id": UserOption,
    "agent_id": AgentOption,
    "conversation_id": ConversationOption,
    "intent": Annotated[
        str | None, typer.Option("--intent", metavar="INTENT", help="With this intent.")
    ],
    "started_from": SinceOption,
    "started_until": UntilOption,
    "min_total_tokens": Annotated[
        int | None,
        typer.Option("--min-tokens", metavar="N", help="With so many tokens or more."),
    ],
    "min_latency_ms": Annotated[
        int | None,
        typer.Option("--min-latency", metavar="MS", help="That took so many ms or more."),
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
