"""Writers that name the same records in opposite orders never deadlock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.errors import IntegrityError
from jazzmine.records.messages import Message
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.backends.postgres_samples import config, conversation, message, trace
from tests.servers import postgres

ROUNDS = 30
CONVERSATIONS = [conversation("c1"), conversation("c2")]


def said(conversation_id: str) -> list[Message]:
    return [
        message(f"{conversation_id} {n}").model_copy(update={"conversation_id": conversation_id})
        for n in range(40)
    ]


BOTH = [one for pair in zip(said("c1"), said("c2"), strict=True) for one in pair]
"""Messages of two conversations, in an order that is not that of the ids."""

Steps = Callable[[Any, int], list[tuple[str, tuple[Any, ...], dict[str, Any]]]]
"""What one writer does in a round: names of methods, and their arguments."""


def turns(direction: int) -> Steps:
    def steps(store: Any, n: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
        held = {
            "conversation": CONVERSATIONS[n % 2],
            "messages": BOTH[::direction],
            "trace": trace(BOTH[n % len(BOTH)].id),
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


CASES: dict[str, tuple[Steps, ...]] = {
    "turns": (turns(1), turns(-1)),
    "batches": (batches(1), batches(-1)),
    "turns and batches": (turns(1), batches(-1)),
    "turns and deletions": (turns(1), deletions, turns(-1)),
    "batches and deletions": (batches(1), deletions, batches(-1)),
    "moves and deletions": (moves, deletions, batches(1)),
    "everything": (turns(1), turns(-1), batches(-1), deletions, moves, single),
}


@pytest.fixture(params=postgres.VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def schema(version: str) -> Iterator[str]:
    """The name of a schema; at the end no statement may have met a deadlock."""
    with postgres.new_schema(version) as name, postgres.connect(postgres.dsn(version)) as beside:
        before = deadlocks(beside)
        yield name
        # A session counts what it met when it ends.
        others = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s"
        until = monotonic() + 10
        while beside.execute(others, [f'%"{name}".messages%']).fetchone() != (0,):
            assert monotonic() < until
            sleep(0.02)
        assert deadlocks(beside) == before


def deadlocks(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    connection.execute("SELECT pg_stat_clear_snapshot()")
    sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0])


def options(version: str, schema: str) -> dict[str, object]:
    return config(schema, dsn=postgres.dsn(version), pool_min=1, timeout=120)


@pytest.mark.parametrize("writers", CASES.values(), ids=CASES)
async def test_async_writers_of_opposite_orders(
    version: str, schema: str, writers: tuple[Steps, ...]
) -> None:
    async def work(steps: Steps) -> None:
        # Each has its own store: one store would let a writer wait in the process.
        async with await MessageStore.initialize(options(version, schema)) as store:
            for n in range(ROUNDS):
                for name, arguments, keywords in steps(store, n):
                    call: Callable[..., Awaitable[object]] = getattr(store, name)
                    await tolerant(call(*arguments, **keywords))

    async with await MessageStore.initialize(options(version, schema)) as store:
        await fill(store)
    await asyncio.gather(*map(work, writers))


async def fill(store: MessageStore) -> None:
    for one in CONVERSATIONS:
        await store.store_conversation(one)
    await store.store_messages(BOTH)


async def tolerant(call: Awaitable[object]) -> None:
    """Wait for a call that may find its conversation or its message deleted."""
    try:
        await call
    except IntegrityError:
        return


@pytest.mark.parametrize("writers", [CASES["turns"], CASES["everything"]], ids=["turns", "all"])
def test_sync_writers_of_opposite_orders(
    version: str, schema: str, writers: tuple[Steps, ...]
) -> None:
    failures: list[BaseException] = []

    def work(steps: Steps) -> None:
        with SyncMessageStore.initialize(options(version, schema)) as store:
            for n in range(ROUNDS):
                for name, arguments, keywords in steps(store, n):
                    try:
                        getattr(store, name)(*arguments, **keywords)
                    except IntegrityError:
                        continue
                    except BaseException as error:
                        failures.append(error)
                        return

    with SyncMessageStore.initialize(options(version, schema)) as store:
        for one in CONVERSATIONS:
            store.store_conversation(one)
        store.store_messages(BOTH)
    threads = [threading.Thread(target=work, args=(steps,)) for steps in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


async def test_new_messages_of_opposite_orders(version: str, schema: str) -> None:
    """Rows that neither writer sees yet: they can't be locked before they are inserted."""

    async def work(direction: int) -> None:
        async with await MessageStore.initialize(options(version, schema)) as store:
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

    async with await MessageStore.initialize(options(version, schema)) as store:
        await store.store_conversation(conversation())
    await asyncio.gather(work(1), work(-1))


async def test_messages_stored_together_keep_the_order_in_which_they_were_given(
    version: str, schema: str
) -> None:
    given = [message(name) for name in ("z", "b", "y", "a", "x")]
    async with await MessageStore.initialize(options(version, schema)) as store:
        await store.store_turn(conversation=conversation(), messages=given[:3])
        await store.store_messages(given[::-1])
        held = await store.get_messages_by_conversation_id("c1")
        assert [one.id for one in held] == ["z", "b", "y", "x", "a"]
