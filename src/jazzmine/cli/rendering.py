"""How the commands show records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text

from jazzmine.cli.output import block, is_terminal, line, print_json, shown, when, write
from jazzmine.records.base import Record
from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.traces import TurnTrace

__all__ = ["print_records", "show_conversation", "show_message", "show_value", "trace_line"]

# So many characters of a text are shown on a terminal.
_LONG = 2_000

_STYLES = {
    MessageRole.USER: "bold cyan",
    MessageRole.ASSISTANT: "bold green",
    MessageRole.COLLEAGUE_ASSISTANT: "bold magenta",
    MessageRole.SYSTEM: "bold yellow",
}


def show_conversation(one: Conversation) -> None:
    """Print what a conversation is about."""
    write(shown(one.title or "(no title)", "bold"))
    write(f"{line(one.id)}  user {line(one.user_id)}  agent {line(one.agent_id)}")
    write(f"{when(one.created_at)} to {when(one.last_updated_at)}")
    if one.metadata:
        write(line(json.dumps(one.metadata, ensure_ascii=False)))


def show_message(one: Message, full: bool = True) -> None:
    """Print a message, and what it says of its turn; cut on a terminal unless `full`."""
    head = Text().append(one.role.value, style=_STYLES.get(one.role, "bold"))
    head.append(f"  {when(one.timestamp)}  {line(one.id)}", style="dim")
    if one.is_flagged:
        head.append("  flagged", style="red")
    write("")
    write(head)
    write(block(_cut(one.original_content, full)))
    notes: dict[str, Sequence[str] | None] = {
        "tools": one.invoked_tools,
        "flows": one.invoked_flows,
        "entities": [entity.name for entity in one.entities],
        "errors": one.errors,
    }
    for name, values in notes.items():
        if values:
            style = "red" if name == "errors" else "dim"
            write(shown(f"  {name}: {', '.join(values)}", style))


def trace_line(one: TurnTrace) -> str:
    """Return what a turn did and cost, in a line."""
    parts = [
        f"turn {one.turn_number}",
        f"{one.total_latency_ms} ms",
        _counted(one.total_tokens, "token"),
        _counted(len(one.llm_calls), "model call"),
        _counted(len(one.tool_traces), "tool"),
    ]
    return ", ".join(parts + [f"error: {error}" for error in one.errors])


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def show_value(name: str, value: Any, indent: str, full: bool = True) -> None:
    """Print a value of JSON, and the values in it below, indented; cut as a message is."""
    if isinstance(value, dict) and value:
        write(f"{indent}{line(name)}:")
        for key, inner in value.items():
            show_value(key, inner, indent + "  ", full)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        write(f"{indent}{line(name)}:")
        for number, inner in enumerate(value, 1):
            show_value(str(number), inner, indent + "  ", full)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        write(f"{indent}{line(name)}: {line(_cut(text, full))}")


def _cut(text: str, full: bool) -> str:
    if full or len(text) <= _LONG or not is_terminal():
        return text
    return f"{text[:_LONG]}… {len(text) - _LONG:,} more characters (--full)"


def print_records(records: Iterable[Record]) -> None:
    """Print each record as a line of JSON."""
    for record in records:
        print_json(record.model_dump(mode="json"))
