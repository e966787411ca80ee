"""Calls are cancelled at random moments, and the store works as before."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jazzmine import DeleteItem, MemoryItem, PutItem
from jazzmine.core import long_term_memory, message_store, working_memory
from tests.backends.memory_tables import PostgresRows, Rows, SQLiteRows
from tests.behaviour.samples import conversation, message, messages, trace
from tests.faults.networks import Config, config_of, is_memory
from tests.faults.sizes import LENIENCE, TOLERANCE, report, size
from tests.servers import redis

# If PyMongo is stopped while it connects, the socket may be left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

CANCELLATIONS = size(80, 2000)
POOL = 3
AT_ONCE = 6
KEY = "c1"
SHARED_MEMORIES = ["redis", "sqlite_memory", "postgres_memory"]
ITEM_STORES = ["sqlite_items", "postgres_items", "mongodb_items"]
STORES = ["json", "sqlite", "postgres", "mongodb", "memory", *SHARED_MEMORIES, *ITEM_STORES]

MESSAGE_CALLS: list[Callable[[Any], Any]] = [
    lambda store: store.store_message(message("m1")),
    lambda store: store.store_messages(messages("m1", "m2")),
    lambda store: store.store_turn(messages=[message("m3")], trace=trace("m3")),
    lambda store: store.get_messages_by_conversation_id(KEY),
    lambda store: store.delete_message("m2"),
]
MEMORY_CALLS: list[Callable[[Any], Any]] = [
    lambda store: store.end_turn(KEY, "response", "intent"),
    lambda store: in_a_block(store),
    lambda store: store.get(KEY),
]


N = ("n",)


def item(key: str, **fields: Any) -> MemoryItem:
    return MemoryItem(namespace=N, key=key, value={"k": key}, user_id="u1", **fields)


ITEM_CALLS: list[Callable[[Any], Any]] = [
    lambda store: store.put(item("a", data=b"bytes")),
    lambda store: store.apply([PutItem(item("b")), DeleteItem(N, "a"), PutItem(item("c"))]),
    lambda store: store.delete(N, "b"),
    lambda store: store.get(N, "a"),
    lambda store: store.list_items(N),
    lambda store: store.list_namespaces(),
    lambda store: store.search_items("a"),
    lambda store: store.erase_user("u1"),
]


async def in_a_block(store: Any) -> None:
    async with store.locked(KEY) as memory:
        await asyncio.sleep(0)
        memory.end_turn("response", "intent")


async def erase_and_create(store: Any) -> None:
    await store.erase_user("u1")
    await store.get_or_create(KEY, "u1", "a1")


@asynccontextmanager
async def opened(
    name: str, config: Config
) -> AsyncIterator[tuple[Any, list[Callable[[Any], Any]]]]:
    """A store with a conversation, and the calls to make to it."""
    if config["storage"] == "postgres":
        config = {**config, "pool_min": POOL, "pool_max": POOL}
    if is_memory(name):
        async with await working_memory.WorkingMemoryStore.initialize(config) as memory:
            await memory.get_or_create(KEY, "u1", "a1")
            yield memory, MEMORY_CALLS
    elif name in ITEM_STORES:
        async with await long_term_memory.LongTermMemoryStore.initialize(config) as items:
            yield items, ITEM_CALLS
    else:
        async with await message_store.MessageStore.initialize(config) as store:
            await store.store_conversation(conversation(KEY))
            yield store, MESSAGE_CALLS


def locks_of(config: Config) -> list[Any]:
    """Return the locks that are held, as the back end has them."""
    if config["storage"] == "redis":
        return list(redis.running(redis.Server).client.keys("wm_lock:*"))
    rows: Rows = SQLiteRows(Path(str(config.get("path"))))
    if config["storage"] == "postgres":
        rows = PostgresRows(str(config["schema"]))
    return rows.locked()


async def cancel_at_random(
    store: Any, calls: list[Callable[[Any], Any]], seed: int, cancellations: int = CANCELLATIONS
) -> None:
    """Cancel calls at random, and fail if another call is affected."""
    chance = random.Random(seed)
    for number in range(0, cancellations, 2):
        tasks = [asyncio.ensure_future(chance.choice(calls)(store)) for _ in range(4)]
        if chance.random() < 0.5:
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(chance.uniform(0, 0.004))
        for task in tasks[:2]:
            task.cancel()
        done, pending = await asyncio.wait(tasks, timeout=120)
        assert not pending, f"a call hangs after cancellation {number}"
        failed = [task.exception() for task in done if not task.cancelled() and task.exception()]
        assert not failed, f"another call failed: {failed}"


async def is_whole(store: Any, calls: list[Callable[[Any], Any]]) -> None:
    """Fail unless a call succeeds after locks have expired (100 ms), and then many at once."""
    call = calls[0]
    try:
        await asyncio.wait_for(call(store), 0.1 + 0.2 + TOLERANCE)
        await asyncio.wait_for(
            asyncio.gather(*(call(store) for _ in range(AT_ONCE))), 5 + TOLERANCE
        )
    except TimeoutError:
        raise AssertionError("a lock or a connection is still held") from None


@pytest.mark.parametrize("name", STORES)
async def test_cancelled_calls_hold_no_lock_and_no_connection(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    others = asyncio.all_tasks()
    with config_of(name, tmp_path) as config:
        async with opened(name, config) as (store, calls):
            await cancel_at_random(store, calls, seed=1)
            await is_whole(store, calls)
            if name in SHARED_MEMORIES:
                await asyncio.sleep(0.1 + LENIENCE / 4)
                assert locks_of(config) == []
    await asyncio.sleep(0.05)
    gc.collect()
    assert asyncio.all_tasks() == others, "a task is left over"
    assert "pending" not in caplog.text
    report(f"cancelled, {name}: {CANCELLATIONS} cancellations: nothing held, nothing pending")


class CancelledAt:
    """A call that is cancelled the nth time that it waits for something."""

    def __init__(self, call: Any, number: int) -> None:
        self._call, self._number = call, number
        self.is_reached: bool = False

    def __await__(self) -> Generator[Any, None, Any]:
        steps = self._call.__await__()
        for number in itertools.count():
            try:
                waiting = next(steps)
            except StopIteration as end:
                return end.value
            if number == self._number:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()  # it is, as soon as it waits
                self.is_reached = True
            try:
                yield waiting
            except asyncio.CancelledError as error:
                # The call may go on: it releases what it holds.
                try:
                    waiting = steps.throw(error)
                except StopIteration as end:
                    return end.value
                yield waiting


@pytest.mark.parametrize("call", [*MEMORY_CALLS, erase_and_create])
@pytest.mark.parametrize("name", ["memory", *SHARED_MEMORIES])
async def test_a_call_that_is_cancelled_where_it_waits_is_done_or_is_not(
    name: str, call: Callable[[Any], Any], tmp_path: Path
) -> None:
    with config_of(name, tmp_path) as config:
        async with opened(name, config) as (store, _):
            for number in itertools.count():
                before = await store.get_or_create(KEY, "u1", "a1")
                task = asyncio.ensure_future(CancelledAt(call(store), number))
                await asyncio.wait([task])
                if not task.cancelled():
                    break
                # It may take effect until somebody saves, and never after.
                await store.get_or_create(KEY, "u1", "a1")
                after = await store.set_data(KEY, number=number)
                assert after.revision in (before.revision + 1, before.revision + 2, 2)
                await asyncio.sleep(0.005)
                assert await store.get(KEY) == after
            assert task.exception() is None
            assert number > 0 or name == "memory"
            if name in SHARED_MEMORIES:
                await asyncio.sleep(0.1 + LENIENCE / 4)
                assert locks_of(config) == []


BEFORE = [item("a"), item("b", data=b"old")]
# What each may leave behind, by keys; those that were there have the revisions that they had.
ITEM_WRITES: dict[str, tuple[Callable[[Any, Any], Any], list[list[str]]]] = {
    "put": (lambda store, old: store.put(item("a")), [["a", "b"]]),
    "compare and set": (
        lambda store, old: store.put(item("b"), expected_revision=old[1].revision),
        [["a", "b"]],
    ),
    "delete": (lambda store, old: store.delete(N, "a"), [["a", "b"], ["b"]]),
    "apply": (
        lambda store, old: store.apply(
            [DeleteItem(N, "a"), PutItem(item("c")), PutItem(item("d"), None)]
        ),
        [["a", "b"], ["b", "c", "d"]],
    ),
    "erase": (lambda store, old: store.erase_user("u1"), [["a", "b"], []]),
}


@pytest.mark.every_combination
@pytest.mark.parametrize("write", ITEM_WRITES)
@pytest.mark.parametrize("name", ITEM_STORES)
async def test_a_change_of_items_that_is_cancelled_where_it_waits_is_done_or_is_not(
    name: str, write: str, tmp_path: Path
) -> None:
    call, allowed = ITEM_WRITES[write]
    with config_of(name, tmp_path) as config:
        async with opened(name, config) as (store, _):
            await cancel_a_change(store, call, allowed, write == "compare and set")


async def cancel_a_change(
    store: Any, call: Callable[[Any, Any], Any], allowed: list[list[str]], is_conditional: bool
) -> None:
    """Cancel a change at each moment when it waits, and fail if it is made in part or too late."""
    for number in itertools.count():
        erased = 1
        while erased:  # what was cancelled last may take effect until the server has ended it
            erased = await store.erase_user("u1")
            await asyncio.sleep(0.02)
        before = await store.apply(map(PutItem, BEFORE))
        cancelled = CancelledAt(call(store, before), number)
        task = asyncio.ensure_future(cancelled)
        await asyncio.wait([task])
        # Before Python 3.12, `asyncio.wait_for` loses some cancellations of a driver's.
        assert task.cancelled() or task.exception() is None
        if not cancelled.is_reached:
            assert number > 0
            return
        if is_conditional:  # it is not made over a later change
            mine = await store.put(item("b", data=b"mine"))
            for _ in range(20):
                await asyncio.sleep(0.001)
                assert await store.get(N, "b") == mine, "it was made later"
        await asyncio.sleep(0.02)  # a server may need a moment to end it
        after = await store.list_items()
        assert [one.key for one in after] in allowed, "it was made in part"


late: list[asyncio.Task[None]] = []


async def in_two_steps(store: Any, _: Any) -> None:
    await store.delete(N, "a")
    await asyncio.sleep(0)  # cancelled here, it is in part for sure
    await store.apply([PutItem(item("c")), PutItem(item("d"))])


async def goes_on(store: Any, _: Any) -> None:
    late.append(asyncio.ensure_future(write_over(store)))
    await asyncio.sleep(0)


async def write_over(store: Any) -> None:
    found = None
    while found is None or found.data != b"mine":
        await asyncio.sleep(0)  # a read of a small file does not wait
        found = await store.get(N, "b")
    await store.put(item("b"))


@pytest.mark.parametrize(
    ("broken", "is_conditional", "text"),
    [(in_two_steps, False, "in part"), (goes_on, True, "later")],
)
async def test_a_change_that_is_made_in_part_or_later_is_found_out(
    broken: Any, is_conditional: bool, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "items.db"
    async with await long_term_memory.LongTermMemoryStore.initialize(path) as store:
        with pytest.raises(AssertionError, match=text):
            await cancel_a_change(store, broken, ITEM_WRITES["apply"][1], is_conditional)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        late.clear()


async def test_a_store_that_leaks_a_lock_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.TOLERANCE", 0.0)
    lock = asyncio.Lock()

    async def leak(store: object) -> None:
        await lock.acquire()
        await asyncio.sleep(0.001)
        lock.release()  # it is not released if the call is cancelled

    task = asyncio.ensure_future(leak(None))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(AssertionError, match="still held"):
        await is_whole(None, [leak])
