"""Concurrent writes of the same records in opposite orders never deadlock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.messages import Message
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.backends.postgres_samples import config, conversation, message, trace
from tests.servers import postgres

ROUNDS = 30
REFUSED = (ConflictError, IntegrityError, NotFoundError)
CONVERSATIONS = [conversation("c1"), conversation("c2")]


def said(conversation_id: str) -> list[Message]:
    return [
        message(f"{conversation_id} {n}").model_copy(update={"conversation_id": conversation_id})
        for n in range(40)
    ]


BOTH = [one for pair in zip(said("c1"), said("c2"), strict=True) for one in pair]
"""Messages of two conversations, in an order that is not that of the ids."""

Steps = Callable[[Any, int], list[tuple[str, tuple[Any, ...], dict[str, Any]]]]
"""The calls of one writer in a round: names of methods, and their arguments."""


def turns(direction: int) -> Steps:
    def steps(store: Any, n: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
        held = {
            "conversation": CONVERSATIONS[n % 2],
            "messages": BOTH[::direction],
            "trace": trace(BOTH[n % len(BOTH)].id),
        }
        return [("store_turn", (), held)]

    return steps


def turns_of_one(direction: int) -> Steps:
    """As `turns`, with records of one conversation."""

    def steps(store: Any, n: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
        owner = CONVERSATIONS[n % 2]
        own = [one for one in BOTH if one.conversation_id == owner.id]
        held = {
            "conversation": owner,
            "messages": own[::direction],
            "trace": trace(own[n % len(own)].id),
        }
        return [("store_turn", (), held)]

    return steps


def batches(direction: int) -> Steps:
    return lambda store, n: [("store_messages", (BOTH[::direction],), {})]


def deletions(store: Any, n: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    doomed = CONVERSATIONS[n % 2]
    return [
        ("delete_message", (BOTH[n % len(BOTH)].id,), {}),
        ("delete_conversation", (doomed.id,), {}),
        ("store_conversation", (doomed,), {}),
    ]


def moves(store: Any, n: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Store the messages of each conversation in the other."""
    moved = [
        one.model_copy(update={"conversation_id": "c2" if one.conversation_id == "c1" else "c1"})
        for one in BOTH
    ]
    return [("store_messages", ((moved if n % 2 else BOTH)[::-1],), {})]


def single(store: Any, n: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    one = BOTH[n % len(BOTH)]
    return [
        ("store_message", (one,), {}),
        ("flag_message", (one.id, n % 3 == 0), {}),
        ("store_turn_trace", (trace(one.id),), {}),
    ]


def appends(direction: int) -> Steps:
    """Append new messages to both conversations, and messages that others store."""

    def steps(store: Any, n: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
        calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        for owner in ("c1", "c2")[::direction]:
            new = [f"{owner} {n} {k}" for k in range(5)][::direction]
            stored = [one for one in BOTH if one.conversation_id == owner][n % 40 :][:1]
            added = [message(one).model_copy(update={"conversation_id": owner}) for one in new]
            calls += [("append_messages", (owner, added), {})]
            calls += [("append_messages", (owner, stored), {}), ("pop_message", (owner,), {})]
        return calls

    return steps


def cuts(store: Any, n: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    here, there = ("c1", "c2")[:: 1 - 2 * (n % 2)]
    copy = conversation(f"copy {n % 3}")
    return [
        ("fork_conversation", (here, copy), {}),
        ("rewind_conversation", (there,), {"after": None}),
        ("fork_conversation", (copy.id, CONVERSATIONS[n % 2]), {}),
        ("get_or_create_conversation", (CONVERSATIONS[n % 2],), {}),
        ("delete_conversation", (copy.id,), {}),
    ]


def erasures(store: Any, n: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    if n % 3:
        return [("prune_conversations", (), {"before": 2**62, "limit": 1 + n % 3})]
    return [
        ("erase_user", (BOTH[0].user_id,), {}),
        *(("get_or_create_conversation", (one,), {}) for one in CONVERSATIONS),
    ]


CASES: dict[str, tuple[Steps, ...]] = {
    "turns": (turns(1), turns(-1)),
    "batches": (batches(1), batches(-1)),
    "turns and batches": (turns(1), batches(-1)),
    "turns and deletions": (turns(1), deletions, turns(-1)),
    "batches and deletions": (batches(1), deletions, batches(-1)),
    "moves and deletions": (moves, deletions, batches(1)),
    "appends": (appends(1), appends(-1), single),
    "appends and batches": (appends(1), appends(-1), batches(-1), moves),
    "forks and erasures": (cuts, cuts, appends(-1), erasures, erasures),
    "everything but the log": (turns(1), turns(-1), batches(-1), deletions, moves, single),
    # Without turns of two conversations, and without moves: the documentation says why.
    "everything": (
        *(turns_of_one(1), turns_of_one(-1), batches(-1), deletions, single),
        *(appends(1), appends(-1), cuts, cuts, erasures, erasures),
    ),
}


@pytest.fixture(params=postgres.VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(version: str) -> Iterator[str]:
    """The DSN of a new database; at the end, fail if the server has counted a deadlock in it."""
    name = f"jazzmine_test_{uuid4().hex}"
    with postgres.connect(postgres.dsn(version)) as beside:
        beside.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield postgres.changed(postgres.dsn(version), dbname=name)
            # A session reports its deadlocks when it ends.
            sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
            until = monotonic() + 10
            while beside.execute(sessions, [name]).fetchone() != (0,):
                assert monotonic() < until
                sleep(0.02)
            deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = %s"
            assert beside.execute(deadlocks, [name]).fetchone() == (0,)
        finally:
            beside.execute(f"DROP DATABASE {name}".encode())


def options(database: str) -> dict[str, object]:
    return config("public", dsn=database, pool_min=1, timeout=120)


@pytest.mark.parametrize("writers", CASES.values(), ids=CASES)
async def test_async_writers_of_opposite_orders(database: str, writers: tuple[Steps, ...]) -> None:
    async def work(steps: Steps) -> None:
        # Each writer has its own store, because one store would make a writer wait in the process.
        async with await MessageStore.initialize(options(database)) as store:
            for n in range(ROUNDS):
                for name, arguments, keywords in steps(store, n):
                    call: Callable[..., Awaitable[object]] = getattr(store, name)
                    await tolerant(call(*arguments, **keywords))

    async with await MessageStore.initialize(options(database)) as store:
        await fill(store)
    await asyncio.gather(*map(work, writers))


async def fill(store: MessageStore) -> None:
    for one in CONVERSATIONS:
        await store.store_conversation(one)
    await store.store_messages(BOTH)


async def tolerant(call: Awaitable[object]) -> None:
    """Wait for a call that may find its conversation or its message deleted, or stored."""
    try:
        await call
    except REFUSED:
        return


@pytest.mark.parametrize("writers", [CASES["turns"], CASES["everything"]], ids=["turns", "all"])
def test_sync_writers_of_opposite_orders(database: str, writers: tuple[Steps, ...]) -> None:
    failures: list[BaseException] = []

    def work(steps: Steps) -> None:
        with SyncMessageStore.initialize(options(database)) as store:
            for n in range(ROUNDS):
                for name, arguments, keywords in steps(store, n):
                    try:
                        getattr(store, name)(*arguments, **keywords)
                    except REFUSED:
                        continue
                    except BaseException as error:
                        failures.append(error)
                        return

    with SyncMessageStore.initialize(options(database)) as store:
        for one in CONVERSATIONS:
            store.store_conversation(one)
        store.store_messages(BOTH)
    threads = [threading.Thread(target=work, args=(steps,)) for steps in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


async def test_new_messages_of_opposite_orders(database: str) -> None:
    """Neither writer sees these rows yet, so it cannot lock them before inserting them."""

    async def work(direction: int) -> None:
        async with await MessageStore.initialize(options(database)) as store:
            for n in range(ROUNDS):
                new = [message(f"{n} {k}") for k in range(60)]
                await barrier()
                await store.store_messages(new[::direction])

    waiting: list[asyncio.Future[None]] = []

    async def barrier() -> None:
        if waiting:
            waiting.pop().set_result(None)
            return
        future = asyncio.get_running_loop().create_future()
        waiting.append(future)
        await future

    async with await MessageStore.initialize(options(database)) as store:
        await store.store_conversation(conversation())
    await asyncio.gather(work(1), work(-1))


def test_a_deletion_locks_nothing_that_is_stored_while_it_waits(database: str) -> None:
    """It would delete the messages of a conversation that it has not locked."""
    with SyncMessageStore.initialize(options(database)), psycopg.connect(database) as session:
        for waits in (True, False):
            is_locked = session.execute("SELECT public.jazzmine_lock_to_delete('c1', %s)", [waits])
            assert is_locked.fetchone() == (False,)


async def test_messages_stored_together_keep_the_order_in_which_they_were_given(
    database: str,
) -> None:
    given = [message(name) for name in ("z", "b", "y", "a", "x")]
    async with await MessageStore.initialize(options(database)) as store:
        await store.store_turn(conversation=conversation(), messages=given[:3])
        await store.store_messages(given[::-1])
        held = await store.get_messages_by_conversation_id("c1")
        assert [one.id for one in held] == ["z", "b", "y", "x", "a"]
