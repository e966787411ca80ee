"""Erase and prune in small transactions, beside live traffic."""

from __future__ import annotations

import time
from collections.abc import Iterator, Callable, Sequence
from contextlib import contextmanager
from time import time_ns

from jazzmine._sync.message_store.backend import MessageBackend
from jazzmine._compat.concurrency import sync_sleep as sleep
from jazzmine.deadline import begin_call
from jazzmine.records.conversation_log import DeletedCounts
from jazzmine.records.hook_arguments import ConversationPage
from jazzmine.records.log import Erasure
from jazzmine.records.rows import Row, row_id

__all__ = ["delete_in_steps", "erase_conversations", "prune_in_steps", "step"]

# How many conversations are chosen at a time to be pruned.
_OLD_AT_ONCE = 50

# After each step, other calls get a multiple of its time, which is not longer than this, in s.
_PAUSE_PER_STEP, _LONGEST_PAUSE = 4, 0.01


@contextmanager
def step() -> Iterator[None]:
    """Give other calls some time after the block, which is one step of a long deletion.

    What follows has a deadline of its own.
    """
    began = time.monotonic()
    yield
    sleep(min((time.monotonic() - began) * _PAUSE_PER_STEP, _LONGEST_PAUSE))
    begin_call()


def delete_in_steps(
    backend: MessageBackend, user_id: str, require_open: Callable[[], None]
) -> Erasure:
    """Delete all records of a user, and return how many."""
    total = DeletedCounts()
    newest = backend.newest_sequence()
    while True:
        with step():
            erased = backend.erase(user_id, backend.deleted_at_once, newest)
        if not any(erased):
            return Erasure(**total._asdict(), erased_at=time_ns() // 1_000_000)
        total = total.plus(erased)
        require_open()


def erase_conversations(
    backend: MessageBackend, user_id: str, require_open: Callable[[], None]
) -> Erasure:
    """Delete the conversations that a user has now, with everything in them; return the counts.

    The user's messages and traces in other users' conversations stay.
    """
    total = DeletedCounts()
    rows = backend.list_conversations(ConversationPage("user_id", user_id, {}, None, None))
    for conversation_id in map(row_id, rows):
        with step():
            messages = backend.count_messages([conversation_id])
            traces = backend.list_conversation_traces(conversation_id)
            if backend.delete_conversation(conversation_id):
                counts = DeletedCounts(1, messages.get(conversation_id, 0), len(traces))
                total = total.plus(counts)
        require_open()
    backend.purge()
    return Erasure(**total._asdict(), erased_at=time_ns() // 1_000_000)


def prune_in_steps(
    backend: MessageBackend,
    before: int,
    limit: int,
    choose: Callable[[Sequence[Row]], Sequence[Row]],
    require_open: Callable[[], None],
    user_id: str | None,
) -> int:
    """Delete up to `limit` old conversations that `choose` returns, and return how many."""
    pruned = 0
    for rows in backend.iter_old(before, _OLD_AT_ONCE, user_id):
        left = choose(rows)
        while left and pruned < limit:
            chosen = left[: limit - pruned]
            with step():
                deleted, done = backend.prune(chosen, before, backend.deleted_at_once)
            pruned, left = pruned + deleted, left[done:]
            require_open()
        if pruned == limit:
            break
    if pruned:
        backend.purge()
    return pruned
