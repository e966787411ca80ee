"""How the commands show records."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from rich.text import Text

from jazzmine.cli.output import (
    counted,
    is_terminal,
    line,
    print_json,
    print_table,
    shown,
    when,
    write,
)
from jazzmine.inspector.text import cost_of, visible
from jazzmine.records.base import Record
from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.timeline import at_least, money, timeline, unpriced, unreported
from jazzmine.records.traces import TurnTrace

AnyRecord = TypeVar("AnyRecord", bound=Record)

# So many characters of a text are shown on a terminal.
_LONG = 2_000

_STYLES = {
    MessageRole.USER: "bold cyan",
    MessageRole.ASSISTANT: "bold green",
    MessageRole.COLLEAGUE_ASSISTANT: "bold magenta",
    MessageRole.SYSTEM: "bold yellow",
}


def show_conversation(conversation: Conversation, full: bool = True) -> None:
    """Print what a conversation is about; cut on a terminal unless `full`."""
    write(shown(_cut(conversation.title or "(no title)", full), "bold"))
    names = (conversation.id, conversation.user_id, conversation.agent_id)
    write("{}  user {}  agent {}".format(*map(line, names)))
    write(f"{when(conversation.created_at)} to {when(conversation.last_updated_at)}")
    if conversation.metadata:
        write(line(_cut(json.dumps(conversation.metadata, ensure_ascii=False), full)))


def show_message(message: Message, full: bool = True) -> None:
    """Print a message, and what it says of its turn; cut on a terminal unless `full`."""
    head = Text().append(message.role.value, style=_STYLES.get(message.role, "bold"))
    head.append(f"  {when(message.timestamp)}  {line(message.id)}", style="dim")
    if message.is_flagged:
        head.append("  flagged", style="red")
    write("")
    write(head)
    write(visible(_cut(message.original_content, full)))
    notes: dict[str, Sequence[str] | None] = {
        "tools": message.invoked_tools,
        "flows": message.invoked_flows,
        "entities": [entity.name for entity in message.entities],
        "errors": message.errors,
    }
    for name, values in notes.items():
        if values:
            style = "red" if name == "errors" else "dim"
            write(shown(f"  {name}: {_cut(', '.join(values), full)}", style))


def trace_line(trace: TurnTrace, full: bool) -> str:
    """Return what a turn did and cost, in a line; cut on a terminal unless `full`."""
    cost = cost_of(trace)
    tokens = counted(trace.total_tokens, "tokens")
    parts = [
        f"turn {trace.turn_number}" if trace.turn_number else "turn",
        f"{trace.total_latency_ms:,} ms",
        at_least(tokens, trace.total_tokens, unreported(trace)),
        counted(len(trace.llm_calls), "model calls"),
        counted(len(trace.tool_traces), "tools"),
        *([] if cost is None else [at_least(f"{money(cost)} USD", 1, unpriced(trace))]),
        *(f"error: {error}" for error in trace.errors),
    ]
    return _cut(", ".join(parts), full)


def show_calls(trace: TurnTrace, full: bool) -> None:
    """Print the calls of models and tools of a turn, in their order; what went in and out."""
    for step in timeline(trace):
        if step.call is not None:
            call = step.call
            cost = [] if call.cost_usd is None else [f"{money(call.cost_usd)} USD"]
            tokens = counted(call.total_tokens, "tokens")
            tokens = at_least(tokens, call.total_tokens, call.prompt_tokens <= 0)
            facts = [f"{step.ms:,} ms", tokens, *cost]
            _show_call(f"{call.model}: {', '.join(facts)}", call.error)
            if full:
                _show_given(True, input=call.input, output=call.output)
        elif step.tool is not None:
            tool = step.tool
            name = tool.tool_name or f"{tool.sandbox}: {tool.description}"
            _show_call(f"{name}: {step.ms:,} ms", tool.error)
            _show_given(full, arguments=tool.arguments, result=tool.final_data)


def _show_call(facts: str, error: str | None) -> None:
    failure = "" if error is None else f", error: {error}"
    write(shown(f"    {facts}{failure}", "dim" if error is None else "red"))


def _show_given(full: bool, **values: Any) -> None:
    for name, value in values.items():
        if value is not None:
            show_value(name, value, "      ", full)


def show_value(name: str, value: Any, indent: str, full: bool = True) -> None:
    """Print a value of JSON, and the values in it below, indented; cut as a message is."""
    if isinstance(value, dict) and value:
        write(f"{indent}{line(name)}:")
        for key, inner in value.items():
            show_value(key, inner, indent + "  ", full)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        write(f"{indent}{line(name)}:")
        for number, inner in enumerate(value, 1):
            show_value(str(number), inner, indent + "  ", full)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        write(f"{indent}{line(name)}: {line(_cut(text, full))}")


def _cut(text: str, full: bool) -> str:
    if full or len(text) <= _LONG or not is_terminal():
        return text
    more = counted(len(text) - _LONG, "more characters")
    return f"{text[:_LONG]}… {more} (--full)"


def print_records(records: Iterable[Record]) -> None:
    """Print each record as a line of JSON."""
    for record in records:
        print_json(record.model_dump(mode="json"))


def print_list(
    records: Sequence[AnyRecord],
    columns: Sequence[str],
    row: Callable[[AnyRecord], Sequence[object]],
    *,
    as_json: bool,
    numbers: Collection[str] = (),
) -> None:
    """Print records as lines of JSON, or each as a row of a table."""
    if as_json:
        print_records(records)
    else:
        print_table(columns, map(row, records), numbers=numbers)
