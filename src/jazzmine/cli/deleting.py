"""The commands that delete: a conversation, a user's data, and old conversations."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import Annotated

import typer
from pydantic import ValidationError

from jazzmine.cli.options import ConversationArgument, JSONOption, YesOption, confirm, in_ms
from jazzmine.cli.output import Refused, counted, line, print_json, say, when, write
from jazzmine.cli.places import names
from jazzmine.cli.program import command
from jazzmine.cli.progress import counting
from jazzmine.cli.stores import ITEMS, MEMORY, MESSAGES, Stores
from jazzmine.errors import DecryptionError

_AT_ONCE = 1_000


@command("rm")
def remove(stores: Stores, conversation: ConversationArgument, yes: YesOption = False) -> None:
    """Delete a conversation, its messages and their traces, and its working memory.

    It asks first.

    Example: `jazzmine rm 6f1c…`
    """
    with ExitStack() as stack:
        store = stack.enter_context(stores.messages.open())
        memory = stack.enter_context(stores.memory.open()) if stores.memory else None
        about = ", which cannot be read"
        with suppress(DecryptionError, ValidationError):
            stored = store.get_conversation_by_id(conversation)
            if stored is None:
                raise Refused(f"there is no conversation {conversation!r}")
            about = f"{f' ({stored.title})' if stored.title else ''} of user {stored.user_id!r}"
        confirm(line(f"Delete conversation {conversation!r}{about}?"), yes)
        store.delete_conversation(conversation)
        if memory is not None:
            memory.delete(conversation)
    write(line(f"deleted conversation {conversation!r}"))


@command("erase")
def erase(
    stores: Stores,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="The user.")],
    yes: YesOption = False,
    as_json: JSONOption = False,
) -> None:
    """Delete everything of a user: conversations, messages, traces, working memories, items.

    The user's conversations go with all that is in them, and the user's messages in the
    conversations of others. It asks first. It may be repeated until nothing is found.

    Example: `jazzmine erase --user ada`
    """
    named = stores.named
    kinds = [each.kind for each in named]
    for kind in (MESSAGES, MEMORY, ITEMS):
        if kind not in kinds:
            say(f"no {kind.name} is named ({kind.option}): its records of the user stay")
    counts: dict[str, int] = {}
    with ExitStack() as stack:
        opened = [stack.enter_context(each.open()) for each in named]
        where = " and ".join(f"the {kind.name}" for kind in kinds)
        confirm(line(f"Delete everything of user {user!r} in {where}?"), yes)
        # Messages first: a turn that was under way may have written both.
        for kind, store in zip(kinds, opened, strict=True):
            erased = store.erase_user(user)
            if kind is MESSAGES:
                counts |= erased.model_dump(mode="json")
            else:
                counts["items" if kind is ITEMS else "working_memories"] = erased
    if as_json:
        print_json(counts)
    else:
        counts.pop("erased_at", None)
        write(f"erased {names(counts)}")


@command("prune")
def prune(
    stores: Stores,
    before: Annotated[
        int,
        typer.Option(
            "--before", metavar="DATE|AGE", parser=in_ms, help="Later conversations stay."
        ),
    ],
    yes: YesOption = False,
    as_json: JSONOption = False,
) -> None:
    """Delete the conversations whose records are all older than a date, the oldest first.

    It asks first. It works beside live traffic, and may be interrupted and repeated.

    Example: `jazzmine prune --before 90d`
    """
    if before > time.time() * 1000:
        raise typer.BadParameter(
            f"{when(before)} is in the future: that would delete every conversation",
            param_hint="--before",
        )
    with stores.messages.open() as store:
        confirm(f"Delete the conversations last touched before {when(before)}?", yes)
        pruned = 0
        with counting() as counter:
            counter.begin("pruning conversations")
            while deleted := store.prune_conversations(before=before, limit=_AT_ONCE):
                pruned += deleted
                counter.step(deleted)
    if as_json:
        print_json({"conversations": pruned})
    else:
        write(f"pruned {counted(pruned, 'conversations')} last touched before {when(before)}")
