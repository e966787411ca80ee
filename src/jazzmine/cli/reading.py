"""The commands that show what is stored."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from enum import Enum
from typing import Annotated, Any

import typer

from jazzmine.cli.filters import AgentOption, UserOption, filtered
from jazzmine.cli.options import (
    ConversationArgument,
    FollowOption,
    FullOption,
    JSONOption,
    MemoryOption,
    Refused,
    StoreOption,
    WideOption,
    memory_store,
    message_store,
)
from jazzmine.cli.output import (
    paged,
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
from jazzmine.errors import NotFoundError
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
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
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, metavar="N", help="How many at the most.")
]
# What is followed is looked for so often, in s.
_POLL = 1.0
# A trace that is stored when its turn ends may have begun so long before others, in ms.
_LATE = 600_000
_AT_ONCE = 1_000


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
    wide: WideOption = False,
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
            found = opened.get_conversations(limit=limit, after=after)
    if as_json:
        print_records(found)
        return
    rows = (
        (when(one.last_updated_at), one.id, one.user_id, one.agent_id, one.title) for one in found
    )
    columns = ["updated", "conversation", "user", "agent", "title"]
    with paged():
        print_table(columns, rows, times=("updated",), ids=("conversation",), wide=wide)


def show(
    context: typer.Context,
    conversation: ConversationArgument,
    last: Annotated[
        int | None, typer.Option("--last", min=1, metavar="N", help="The newest N messages alone.")
    ] = None,
    traces: Annotated[
        bool, typer.Option("--traces", help="Below each answer, what its turn did and cost.")
    ] = False,
    follow: FollowOption = False,
    full: FullOption = False,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """Show a conversation with its messages, the oldest first.

    Examples: `jazzmine show 6f1c… --last 20 --traces`, `jazzmine show 6f1c… --follow`
    """
    with message_store(context, store) as opened:
        found = conversation_of(opened, conversation)
        with nullcontext() if follow or as_json else paged():
            if as_json:
                print_records([found])
            else:
                show_conversation(found)
            found_traces = opened.get_turn_traces_by_conversation_id(conversation) if traces else []
            of_message = {trace.message_id: trace for trace in found_traces}
            for message in _messages(opened, conversation, last, follow):
                trace = of_message.get(message.id)
                if trace is None and traces and follow:
                    trace = opened.get_turn_trace_by_message_id(message.id)
                _show_with_trace(message, trace, full, as_json)


def _messages(
    store: MessageStore, conversation_id: str, last: int | None, follow: bool
) -> Iterator[Message]:
    seen: dict[str, None] = {}

    def noted(messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            seen[message.id] = None
            yield message

    stored = noted(store.iter_messages(conversation_id))
    yield from stored if last is None else deque(stored, maxlen=last)
    while follow:
        sys.stdout.flush()
        time.sleep(_POLL)
        try:
            newest = next(reversed(seen), None)
            added = store.get_messages_by_conversation_id(conversation_id, after=newest)
        except NotFoundError:  # it was deleted meanwhile, as a rewind does
            every = store.iter_messages(conversation_id)
            added = [message for message in every if message.id not in seen]
        yield from noted(added)


def _show_with_trace(message: Message, trace: TurnTrace | None, full: bool, as_json: bool) -> None:
    if as_json:
        print_records([message, trace] if trace else [message])
        return
    show_message(message, full)
    if trace is not None:
        write(shown(f"  {trace_line(trace)}", "dim"))


def context_of(
    context: typer.Context,
    conversation: ConversationArgument,
    n: Annotated[
        int | None, typer.Option("-n", min=0, metavar="N", help="How many messages; 20.")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            min=0,
            metavar="N",
            help="As many as cost so many tokens together, by an estimate.",
        ),
    ] = None,
    full: FullOption = False,
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
    with paged():
        for message in found:
            show_message(message, full)


@filtered
def list_traces(
    context: typer.Context,
    where: TraceFilter,
    limit: LimitOption = 50,
    after: AfterOption = None,
    follow: FollowOption = False,
    wide: WideOption = False,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """List the traces of turns, the latest first; all filters must hold.

    With `--follow`, traces that are stored later come below, each in a line.

    Examples: `jazzmine traces --agent desk --errors --since 7d`, `jazzmine traces --follow`
    """
    if follow and after is not None:
        raise typer.BadParameter("give --follow or --after, not both")
    with message_store(context, store) as opened:
        seen = _recent_traces(opened, where) if follow else []
        found = opened.find_turn_traces(where, limit=limit, after=after)
        if as_json:
            print_records(found)
        else:
            with nullcontext() if follow else paged():
                _print_traces(found, wide)
        for trace in _added_traces(opened, where, [*seen, *found]) if follow else ():
            if as_json:
                print_records([trace])
            else:
                write(shown(f"{trace.id}  {trace.conversation_id}  {trace_line(trace)}"))


def _print_traces(found: Iterable[TurnTrace], wide: bool) -> None:
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
    print_table(
        columns,
        rows,
        times=("started",),
        ids=("trace", "conversation"),
        numbers=("turn", "ms", "tokens", "errors"),
        wide=wide,
    )


def _recent_traces(store: MessageStore, where: TraceFilter) -> list[TurnTrace]:
    since = round(time.time() * 1000) - _LATE
    recent = where.model_copy(update={"started_from": max(since, where.started_from or since)})
    return store.find_turn_traces(recent, limit=_AT_ONCE)


def _added_traces(
    store: MessageStore, where: TraceFilter, before: Iterable[TurnTrace]
) -> Iterator[TurnTrace]:
    """Yield the traces that are stored from now on, in the order in which their turns began."""
    seen = {trace.id for trace in before}
    while True:
        sys.stdout.flush()
        time.sleep(_POLL)
        found = _recent_traces(store, where)
        yield from (trace for trace in reversed(found) if trace.id not in seen)
        seen = {trace.id for trace in found}


@filtered
def usage(
    context: typer.Context,
    where: TraceFilter,
    by: Annotated[UsageBy, typer.Option("--by", help="What to sum up by.")] = UsageBy.AGENT,
    wide: WideOption = False,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """Sum up what turns took: tokens, costs, latencies, energy; most tokens first.

    `g CO2` is what the agent noted of the energy of its calls (`total_co2_g` of its traces); it is
    shown where any was noted.

    Example: `jazzmine usage --by model --since 30d`
    """
    with message_store(context, store) as opened:
        found = opened.summarize_usage(where, by=by.value)
    if as_json:
        print_records(found)
        return
    columns: dict[str, list[object]] = {
        "turns": [one.turns for one in found],
        "failed": [one.failed_turns for one in found],
        "prompt": [one.prompt_tokens for one in found],
        "completion": [one.completion_tokens for one in found],
        "tokens": [one.total_tokens for one in found],
        "mean ms": [round(one.mean_latency_ms) for one in found],
        "p95 ms": [one.p95_latency_ms for one in found],
    }
    if any(one.total_co2_g for one in found):
        columns["g CO2"] = [f"{one.total_co2_g:.4g}" for one in found]
    if any(one.cached_prompt_tokens for one in found):
        columns["cached"] = [one.cached_prompt_tokens for one in found]
    if any(one.cost_usd for one in found):
        columns["USD"] = [f"{one.cost_usd:.4g}" for one in found]
    rows = zip((one.key for one in found), *columns.values(), strict=True)
    with paged():
        print_table([by.value, *columns], rows, ids=(by.value,), numbers=columns, wide=wide)


def show_memory(
    context: typer.Context,
    conversation: ConversationArgument,
    full: FullOption = False,
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
    with paged():
        for name, value in _with_readable_times(found).items():
            if value not in (None, "", [], {}):
                show_value(name, value, "", full)


def _with_readable_times(memory: WorkingMemory) -> dict[str, Any]:
    """Return a working memory as a dict, with its own times as text; a tool's data stays."""
    shown = memory.to_dict()
    flow, turn = shown["active_flow"] or {}, shown["current_turn"] or {}
    calls = [*flow.get("tool_call_history", ()), *turn.get("tool_calls", ())]
    for part in (shown, flow, shown["pending_confirmation"] or {}, *calls):
        for name in _TIMES & part.keys():
            part[name] = when(round(part[name] * 1000))
    return shown
