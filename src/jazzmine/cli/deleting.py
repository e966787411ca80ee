"""The commands that delete: a conversation, a user's data, and old conversations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Annotated, Any, TypeVar

import typer

from jazzmine.cli.options import (
    ConversationArgument,
    ItemsOption,
    JSONOption,
    MemoryOption,
    StoreOption,
    YesOption,
    confirm,
    in_ms,
    item_store,
    items_url,
    memory_store,
    memory_url,
    message_store,
)
from jazzmine.cli.output import Refused, counted, line, print_json, say, when, write
from jazzmine.cli.progress import Counter, counting
from jazzmine.cli.records import names
from jazzmine.records.base import Record
from jazzmine.records.usage import TraceFilter
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore

__all__ = ["add_commands"]

AnyRecord = TypeVar("AnyRecord", bound=Record)

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")
]
_AT_ONCE = 1_000


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("rm")(remove)
    app.command("erase")(erase)
    app.command("prune")(prune)


def remove(
    context: typer.Context,
    conversation: ConversationArgument,
    yes: YesOption = False,
    store: StoreOption = None,
    memory: MemoryOption = None,
) -> None:
    """Delete a conversation, its messages and their traces, and its working memory.

    It asks first.

    Example: `jazzmine rm 6f1c…`
    """
    shared = memory_url(context, memory)
    remembered = nullcontext() if shared is None else memory_store(context, memory)
    with message_store(context, store) as opened, remembered as other:
        stored = opened.get_conversation_by_id(conversation)
        if stored is None:
            raise Refused(f"there is no conversation {conversation!r}")
        named = f"{conversation!r} ({stored.title})" if stored.title else repr(conversation)
        confirm(line(f"Delete conversation {named} of user {stored.user_id!r}?"), yes)
        opened.delete_conversation(conversation)
        if other is not None:
            other.delete(conversation)
    write(line(f"deleted conversation {conversation!r}"))


def erase(
    context: typer.Context,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="Whose data.")],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JSONOption = False,
    store: StoreOption = None,
    memory: MemoryOption = None,
    items: ItemsOption = None,
) -> None:
    """Delete everything of a user: conversations, messages, traces, working memories, items.

    The user's conversations go with all that is in them, and the user's messages in the
    conversations of others. It asks first. It may be repeated until nothing is found.

    Example: `jazzmine erase --user ada`
    """
    shared = memory_url(context, memory)
    kept = items_url(context, items)
    others = (
        ("working memory", "--memory", shared),
        ("long-term memory", "--items", kept),
    )
    for name, option, url in others:
        if url is None:
            say(f"no {name} is named ({option}): what it has of the user stays")
    where = " and ".join(["the message store", *(f"the {name}" for name, _, url in others if url)])
    remembered = nullcontext() if shared is None else memory_store(context, memory)
    long_term = nullcontext() if kept is None else item_store(kept)
    with message_store(context, store) as opened, remembered as other, long_term as third:
        if dry_run:
            with counting() as counter:
                counts = _of_user(user, opened, other, third, counter)
        else:
            confirm(line(f"Delete everything of user {user!r} in {where}?"), yes)
            counts = opened.erase_user(user).model_dump(mode="json")
            if other is not None:
                # Last: a turn that was under way may have written both.
                counts["working_memories"] = other.erase_user(user)
            if third is not None:
                counts["items"] = third.erase_user(user)
    if as_json:
        print_json(counts)
        return
    counts.pop("erased_at", None)
    write(f"{'would erase' if dry_run else 'erased'} {names(counts)}")


def _of_user(
    user: str,
    store: MessageStore,
    memory: WorkingMemoryStore | None,
    items: LongTermMemoryStore | None,
    counter: Counter,
) -> dict[str, Any]:
    """Return how many records of each kind `erase` would find now."""
    counter.begin("counting")
    conversations = {
        conversation.id
        for conversation in _paged(
            lambda after: store.get_conversations_by_user_id(user, limit=_AT_ONCE, after=after)
        )
    }
    others = (
        message
        for message in _paged(
            lambda after: store.get_messages_by_user_id(user, limit=_AT_ONCE, after=after)
        )
        if message.conversation_id not in conversations
    )
    messages = [message.id for message in others]
    for conversation_id in conversations:
        for message in store.iter_messages(conversation_id):
            messages.append(message.id)
            counter.step()
    traces = {
        trace.id
        for trace in _paged(
            lambda after: store.find_turn_traces(
                TraceFilter(user_id=user), limit=_AT_ONCE, after=after
            )
        )
    }
    for message_id in messages:
        trace = store.get_turn_trace_by_message_id(message_id)
        if trace is not None:
            traces.add(trace.id)
    counts = {
        "conversations": len(conversations),
        "messages": len(messages),
        "traces": len(traces),
    }
    if memory is not None:
        states = map(memory.get, conversations)
        counts["working_memories"] = sum(state is not None for state in states)
    if items is not None:
        counts["items"] = sum(
            1
            for _ in _paged(
                lambda after: items.list_items(user_id=user, limit=_AT_ONCE, after=after),
                lambda item: item,
            )
        )
    return counts


def _paged(
    page: Callable[[Any], Sequence[AnyRecord]],
    cursor: Callable[[Any], Any] = lambda record: record.id,
) -> Iterator[AnyRecord]:
    """Yield the records of a listing, page after page."""
    after = None
    while records := page(after):
        yield from records
        after = cursor(records[-1])


def prune(
    context: typer.Context,
    before: Annotated[
        int,
        typer.Option(
            "--before", metavar="DATE|AGE", parser=in_ms, help="What was touched later stays."
        ),
    ],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """Delete the conversations of which nothing is as new as a date; the oldest first.

    It asks first. It works beside live traffic, and may be interrupted and repeated.

    Examples: `jazzmine prune --before 2025-01-01`, `jazzmine prune --before 90d --dry-run`
    """
    if before > time.time() * 1000:
        raise typer.BadParameter(
            f"{when(before)} is in the future: that would delete every conversation",
            param_hint="--before",
        )
    with message_store(context, store) as opened:
        if not dry_run:
            confirm(f"Delete the conversations last touched before {when(before)}?", yes)
        pruned = 0
        with counting() as counter:
            if dry_run:
                pruned = _old_conversations(opened, before, counter)
            else:
                counter.begin("pruning conversations")
                while deleted := opened.prune_conversations(before=before, limit=_AT_ONCE):
                    pruned += deleted
                    counter.step(deleted)
    if as_json:
        print_json({"conversations": pruned})
    else:
        done = "would prune" if dry_run else "pruned"
        write(f"{done} {counted(pruned, 'conversations')} last touched before {when(before)}")


def _old_conversations(store: MessageStore, before: int, counter: Counter) -> int:
    """Return how many conversations `prune` would delete now."""
    counter.begin("counting conversations")
    old = 0
    conversations = _paged(lambda after: store.get_conversations(limit=_AT_ONCE, after=after))
    for conversation in conversations:
        counter.step()
        if conversation.last_updated_at < before:
            messages = store.iter_messages(conversation.id)
            old += all(message.timestamp < before for message in messages)
    return old
