"""The commands that show what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import typer

from jazzmine.cli.options import (
    AfterOption,
    AgentOption,
    ConversationArgument,
    FullOption,
    JSONOption,
    LimitOption,
    UserOption,
)
from jazzmine.cli.output import Refused, first_of, print_json, shown, when, write
from jazzmine.cli.program import command
from jazzmine.cli.rendering import (
    print_list,
    print_records,
    show_calls,
    show_conversation,
    show_message,
    show_value,
    trace_line,
)
from jazzmine.cli.stores import ITEMS, MEMORY, Stores, require
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.sync import MessageStore

AnyRecord = TypeVar("AnyRecord", Conversation, TurnTrace)

# The beginning of an id is looked for in so many of the newest records, and has so many characters.
_RECENT, _SHORTEST = 1_000, 4

# The fields of a working memory that are times, in s. An argument of a tool may have such a name,
# too, and is mostly a smaller number if it is no time.
_TIMES = {"called_at", "created_at", "last_updated", "requested_at", "started_at"}
_FIRST_TIME = 1e8


def conversation_of(store: MessageStore, given: str) -> Conversation:
    """Return a conversation by its id or a part of it; `Refused` if it is not stored."""
    conversation = store.get_conversation_by_id(given)
    if conversation is None:
        conversation = only_one(given, store.get_conversations(limit=_RECENT))
    if conversation is None:
        raise Refused(f"there is no conversation {given!r}")
    return conversation


def only_one(given: str, records: Iterable[AnyRecord]) -> AnyRecord | None:
    """Return the record whose id begins as is given, or None; `Refused` if there are several."""
    begin = given.removesuffix("…")
    if len(begin) < _SHORTEST:
        return None
    alike = [each for each in records if each.id.startswith(begin)]
    if len(alike) > 1:
        ids = ", ".join(repr(each.id) for each in alike[:5])
        raise Refused(f"{len(alike)} ids begin like {given!r}: {ids}")
    return alike[0] if alike else None


@command("ls")
def list_conversations(
    stores: Stores,
    user: UserOption = None,
    agent: AgentOption = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JSONOption = False,
) -> None:
    """List conversations, the latest first.

    Example: `jazzmine ls --user ada --limit 10`
    """
    page: dict[str, Any] = {"limit": limit + 1, "after": after}
    with stores.messages.open() as opened:
        if agent is not None:
            listed = opened.get_conversations_by_agent_id(agent, user_id=user, **page)
        elif user is not None:
            listed = opened.get_conversations_by_user_id(user, **page)
        else:
            listed = opened.get_conversations(**page)
    columns = ["updated", "conversation", "user", "agent", "title"]
    print_list(
        first_of(listed, limit),
        columns,
        lambda c: (when(c.last_updated_at), c.id, c.user_id, c.agent_id, c.title),
        as_json=as_json,
    )


@command("show")
def show(
    stores: Stores,
    conversation: ConversationArgument,
    last: Annotated[
        int | None, typer.Option("--last", min=1, metavar="N", help="Only the newest N messages.")
    ] = None,
    traces: Annotated[
        bool, typer.Option("--traces", help="Below each answer, what its turn did and cost.")
    ] = False,
    full: FullOption = False,
    as_json: JSONOption = False,
) -> None:
    """Show a conversation with its messages, the oldest first.

    Example: `jazzmine show 6f1c… --last 20 --traces`
    """
    with stores.messages.open() as opened:
        stored = conversation_of(opened, conversation)
        show_whole(opened, stored, last, traces, full, as_json)


def show_whole(
    store: MessageStore,
    conversation: Conversation,
    last: int | None = None,
    traces: bool = False,
    full: bool = True,
    as_json: bool = False,
) -> None:
    """Show a conversation with its messages; the arguments are the options of `show`."""
    if as_json:
        print_records([conversation])
    else:
        show_conversation(conversation, full)
    stored = store.get_turn_traces_by_conversation_id(conversation.id) if traces else []
    of_message = {trace.message_id: trace for trace in stored}
    messages: Iterable[Message] = store.iter_messages(conversation.id)
    if last is not None:
        newest = store.get_messages_by_conversation_id(conversation.id, order="newest", limit=last)
        messages = reversed(newest)
    for message in messages:
        trace = of_message.get(message.id)
        if as_json:
            print_records([message, trace] if trace else [message])
            continue
        show_message(message, full)
        if trace is not None:
            write(shown(f"  {trace_line(trace, full)}", "dim"))
            show_calls(trace, full)


@command("context")
def context_of(
    stores: Stores,
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
) -> None:
    """Show the context of a model: the newest messages of a conversation that are not flagged.

    No answer of a tool is shown without its call, nor a call without its answers. A token is
    estimated as four bytes, and a message costs four besides.

    Examples: `jazzmine context 6f1c… -n 10`, `jazzmine context 6f1c… --max-tokens 4000`
    """
    if n is not None and max_tokens is not None:
        raise typer.BadParameter("give -n or --max-tokens, not both")
    with stores.messages.open() as opened:
        conversation = conversation_of(opened, conversation).id
        if max_tokens is None:
            messages = opened.get_immediate_context(conversation, 20 if n is None else n)
        else:
            messages = opened.get_context_window(conversation, max_tokens=max_tokens)
    if as_json:
        print_records(messages)
        return
    for message in messages:
        show_message(message, full)


@command("memory")
def show_memory(
    stores: Stores,
    conversation: ConversationArgument,
    full: FullOption = False,
    as_json: JSONOption = False,
) -> None:
    """Show the working memory of a conversation: flow, slots, confirmation, entities.

    Example: `jazzmine memory 6f1c… --memory redis://localhost`
    """
    with require(stores.memory, MEMORY).open() as opened:
        state = opened.get(conversation)
    if state is None:
        raise Refused(f"conversation {conversation!r} has no working memory")
    if as_json:
        print_json(state.to_dict())
        return
    for name, value in _readable(state.to_dict()).items():
        show_value(name, value, "", full)


@command("items")
def list_items(
    stores: Stores,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORDS]", help="Words to search, the best first; all without any."),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="A/B", help="In this namespace, and below it.")
    ] = "",
    user: UserOption = None,
    limit: LimitOption = 50,
    as_json: JSONOption = False,
) -> None:
    """List the items of the long-term memory, in the order of their names, or those with words.

    Examples: `jazzmine items --namespace users/ada`, `jazzmine items penicillin`
    """
    prefix = tuple(namespace.split("/")) if namespace else ()
    with require(stores.items, ITEMS).open() as store:
        if words:
            query = " ".join(words)
            matches = store.search_items(query, prefix=prefix, user_id=user, limit=limit + 1)
            items = [each.item for each in matches]
        else:
            items = store.list_items(prefix, user_id=user, limit=limit + 1)
    print_list(
        first_of(items, limit),
        ["updated", "namespace", "key", "user", "value"],
        lambda item: (
            when(item.updated_at),
            "/".join(item.namespace),
            item.key,
            item.user_id or "",
            json.dumps(item.value, ensure_ascii=False),
        ),
        as_json=as_json,
    )


def _readable(value: Any) -> Any:
    """Return a value without what is empty in its objects, and with their times as text."""
    if isinstance(value, list):
        return list(map(_readable, value))
    if not isinstance(value, dict):
        return value
    shown: dict[str, Any] = {}
    for name, inner in value.items():
        if name in _TIMES and isinstance(inner, float) and inner > _FIRST_TIME:
            shown[name] = when(round(inner * 1000))
        elif (content := _readable(inner)) not in (None, "", [], {}):
            shown[name] = content
    return shown
