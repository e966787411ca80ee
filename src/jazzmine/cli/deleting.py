"""The commands that delete: a user's data, and old conversations."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Annotated

import typer

from jazzmine.cli.options import (
    JSONOption,
    MemoryOption,
    StoreOption,
    YesOption,
    confirm,
    in_ms,
    memory_store,
    memory_url,
    message_store,
)
from jazzmine.cli.output import print_json, say, when, write
from jazzmine.cli.progress import counting

__all__ = ["add_commands"]

_AT_ONCE = 1_000


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("erase")(erase)
    app.command("prune")(prune)


def erase(
    context: typer.Context,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="Whose data.")],
    yes: YesOption = False,
    as_json: JSONOption = False,
    store: StoreOption = None,
    memory: MemoryOption = None,
) -> None:
    """Delete everything of a user: conversations, messages, traces, working memories.

    The user's conversations go with all that is in them, and the user's messages in the
    conversations of others. It asks first. It may be repeated until nothing is found.

    Example: `jazzmine erase --user ada`
    """
    shared = memory_url(context, memory)
    if shared is None:
        say("no working memory is named (--memory): only the message store is erased")
    where = "the message store" if shared is None else "the message store and the working memory"
    remembered = nullcontext() if shared is None else memory_store(context, memory)
    with message_store(context, store) as opened, remembered as other:
        confirm(f"Delete everything of user {user!r} in {where}?", yes)
        found = opened.erase_user(user).model_dump(mode="json")
        if other is not None:
            # Last: a turn that was under way may have written both.
            found["working_memories"] = other.erase_user(user)
    if as_json:
        print_json(found)
        return
    del found["erased_at"]
    counts = (f"{count:,} {name.replace('_', ' ')}" for name, count in found.items())
    write(f"erased {', '.join(counts)}")


def prune(
    context: typer.Context,
    before: Annotated[
        int,
        typer.Option(
            "--before", metavar="DATE|MS", parser=in_ms, help="What was touched later stays."
        ),
    ],
    yes: YesOption = False,
    as_json: JSONOption = False,
    store: StoreOption = None,
) -> None:
    """Delete the conversations of which nothing is as new as a date; the oldest first.

    It asks first. It works beside live traffic, and may be interrupted and repeated.

    Example: `jazzmine prune --before 2025-01-01`
    """
    if before > time.time() * 1000:
        raise typer.BadParameter(
            f"{when(before)} is in the future: that would delete every conversation",
            param_hint="--before",
        )
    with message_store(context, store) as opened:
        confirm(f"Delete the conversations last touched before {when(before)}?", yes)
        pruned = 0
        with counting() as counter:
            counter.begin("pruning conversations")
            while found := opened.prune_conversations(before=before, limit=_AT_ONCE):
                pruned += found
                counter.step(found)
    if as_json:
        print_json({"conversations": pruned})
    else:
        write(f"pruned {pruned:,} conversations last touched before {when(before)}")
