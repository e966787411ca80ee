"""The commands that show what is stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Any

import typer

from jazzmine.cli.filters import AgentOption, UserOption, filtered
from jazzmine.cli.options import (
    ConversationArgument,
    JSONOption,
    MemoryOption,
    Refused,
    StoreOption,
    memory_store,
    message_store,
)
from jazzmine.cli.output import (
    print_json,
    print_table,
    shown,
    when,
    write,
)
from jazzmine.cli.rendering import (
    print_records,
    show_conversation,
    show_message,
    show_value,
    trace_line,
)
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.usage import TraceFilter
from jazzmine.records.working_memory import WorkingMemory
from jazzmine.sync import MessageStore

__all__ = ["add_commands", "conversation_of"]

AfterOption = Annotated[
    str | None,
    typer.Option("--after", metavar="ID", help="Begin after this one: the next page."),
]
# The fields of a working memory that are times, in s.
_TIMES = {"called_at", "created_at", "last_updated", "requested_at", "started_at"}
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at the most.")]


class UsageBy(str, Enum):
    """What usage is summed up by."""

    AGENT = "agent"
    USER = "user"
    CONVERSATION = "conversation"
    INTENT = "intent"
    MODEL = "model"
    DAY = "day"


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("ls")(list_conversations)
    app.command("show")(show)
    app.command("context")(context_of)
    app.command("traces")(list_traces)
    app.command("usage")(usage)
    app.command("memory")(show_memory)


def conversation_of(store: MessageStore, conversation_id: str) -> Conversation:
    """Return a conversation.

    Raises:
        Refused: it is not stored.
    """
    found = store.get_conversation_by_id(conversation_id)
    if found is None:
        raise Refused(f"there is no conversation {conversation_id!r}")
    return found


def list_conversations(
    context: typer.Context,
    user: UserOption = None,
    agent: AgentOption = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """List conversations, the latest first.

    Example: `jazzmine ls --user ada --limit 10`
    """
    if user is not None and agent is not None:
        raise typer.BadParameter("give --user or --agent, not both")
    with message_store(context, store) as opened:
        if user is not None:
            found = opened.get_conversations_by_user_id(user, limit=limit, after=after)
        elif agent is not None:
            found = opened.get_conversations_by_agent_id(agent, limit=limit, after=after)
        else:
            found = opened._list_all_conversations(limit, after)
    if as_json:
        print_records(found)
        return
    rows = (
        (when(one.last_updated_at), one.id, one.user_id, one.agent_id, one.title) for one in found
    )
    print_table(["updated", "conversation", "user", "agent", "title"], rows)


def show(
    context: typer.Context,
    conversation: ConversationArgument,
    last: Annotated[
        int | None, typer.Option("--last", min=1, metavar="N", help="The newest N messages alone.")
    ] = None,
    traces: Annotated[
        bool, typer.Option("--traces", help="Below each answer, what its turn did and cost.")
    ] = False,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """Show a conversation with its messages, the oldest first.

    Example: `jazzmine show 6f1c… --last 20 --traces`
    """
    with message_store(context, store) as opened:
        found = conversation_of(opened, conversation)
        messages: Iterable[Message] = opened.iter_messages(conversation)
        if last is not None:
            messages = deque(messages, maxlen=last)
        if as_json:
            print_records([found])
        else:
            show_conversation(found)
        told = opened.get_turn_traces_by_conversation_id(conversation) if traces else []
        of_message = {trace.message_id: trace for trace in told}
        for message in messages:
            trace = of_message.get(message.id)
            if as_json:
                print_records([message, trace] if trace else [message])
            else:
                show_message(message)
                if trace is not None:
                    write(shown(f"  {trace_line(trace)}", "dim"))


def context_of(
    context: typer.Context,
    conversation: ConversationArgument,
    n: Annotated[int | None, typer.Option("-n", min=0, help="How many messages; 20.")] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", min=0, help="As many as cost so many tokens together, by an estimate."
        ),
    ] = None,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """Show what a model is given of a conversation: the newest messages that are not flagged.

    With `--max-tokens`, no answer of a tool is shown without its call. A token is estimated as
    four bytes.

    Examples: `jazzmine context 6f1c… -n 10`, `jazzmine context 6f1c… --max-tokens 4000`
    """
    if n is not None and max_tokens is not None:
        raise typer.BadParameter("give -n or --max-tokens, not both")
    with message_store(context, store) as opened:
        conversation_of(opened, conversation)
        if max_tokens is None:
            found = opened.get_immediate_context(conversation, 20 if n is None else n)
        else:
            found = opened.get_context_window(conversation, max_tokens=max_tokens)
    if as_json:
        print_records(found)
        return
    for message in found:
        show_message(message)


@filtered
def list_traces(
    context: typer.Context,
    where: TraceFilter,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """List the traces of turns, the latest first; all filters must hold.

    Example: `jazzmine traces --agent desk --errors --since 2026-01-31`
    """
    with message_store(context, store) as opened:
        found = opened.find_turn_traces(where, limit=limit, after=after)
    if as_json:
        print_records(found)
        return
    columns = ["started", "trace", "conversation", "turn", "ms", "tokens", "intent", "errors"]
    rows = (
        (
            when(one.started_at_ms),
            one.id,
            one.conversation_id,
            one.turn_number,
            one.total_latency_ms,
            one.total_tokens,
            one.detected_intent,
            len(one.errors),
        )
        for one in found
    )
    print_table(columns, rows, numbers=("turn", "ms", "tokens", "errors"))


@filtered
def usage(
    context: typer.Context,
    where: TraceFilter,
    by: Annotated[UsageBy, typer.Option("--by", help="What to sum up by.")] = UsageBy.AGENT,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """Sum up what turns took: tokens, latencies, energy; most tokens first.

    Example: `jazzmine usage --by model --since 2026-01-01`
    """
    with message_store(context, store) as opened:
        found = opened.summarize_usage(where, by=by.value)
    if as_json:
        print_records(found)
        return
    numbers = ["turns", "failed", "prompt", "completion", "tokens", "mean ms", "p95 ms", "g CO2"]
    rows = (
        (
            one.key,
            one.turns,
            one.failed_turns,
            one.prompt_tokens,
            one.completion_tokens,
            one.total_tokens,
            round(one.mean_latency_ms),
            one.p95_latency_ms,
            f"{one.total_co2_g:.4g}",
        )
        for one in found
    )
    print_table([by.value, *numbers], rows, numbers=numbers)


def show_memory(
    context: typer.Context,
    conversation: ConversationArgument,
    as_json: JSONOption = False,
    memory: MemoryOption = None,
) -> None:
    """Show the working memory of a conversation: flow, slots, confirmation, entities.

    Example: `jazzmine memory 6f1c… --memory redis://localhost`
    """
    with memory_store(context, memory) as opened:
        found = opened.get(conversation)
    if found is None:
        raise Refused(f"conversation {conversation!r} has no working memory")
    if as_json:
        print_json(found.to_dict())
        return
    for name, value in _with_readable_times(found).items():
        if value not in (None, "", [], {}):
            show_value(name, value, "")


def _with_readable_times(memory: WorkingMemory) -> dict[str, Any]:
    """Return a working memory as a dict, with its own times as text; a tool's data stays."""
    shown = memory.to_dict()
    flow, turn = shown["active_flow"] or {}, shown["current_turn"] or {}
    calls = [*flow.get("tool_call_history", ()), *turn.get("tool_calls", ())]
    for part in (shown, flow, shown["pending_confirmation"] or {}, *calls):
        for name in _TIMES & part.keys():
            part[name] = when(round(part[name] * 1000))
    return shown
