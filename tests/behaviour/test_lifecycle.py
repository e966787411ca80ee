"""A store is opened, and closed for good: what began before does not go on after it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jazzmine import StoreClosedError
from jazzmine.core.message_store import JSONMessageStore, MessageStore
from jazzmine.core.working_memory import InMemoryWorkingMemoryStore, WorkingMemoryStore
from tests.behaviour.apis import Api, take
from tests.behaviour.backends import Config
from tests.behaviour.calls import CALLS
from tests.behaviour.memory_samples import UPDATES, busy
from tests.behaviour.samples import conversation, message, messages

TIME_LIMITS = {
    "json": ["lock_timeout"],
    "sqlite": ["timeout"],
    "postgres": ["timeout", "migration_timeout"],
    "mongodb": ["timeout", "migration_timeout"],
}


@pytest.fixture
async def store(api: Api, config: Config) -> AsyncIterator[MessageStore]:
    """A store for this test to close, with three messages."""
    async with await api.MessageStore.initialize(config) as opened:
        await opened.store_turn(conversation=conversation(), messages=messages("m1", "m2", "m3"))
        yield opened


@pytest.fixture
async def memories(api: Api, memory_config: Config) -> AsyncIterator[WorkingMemoryStore]:
    """A store of working memory for this test to close, with one entry."""
    async with await api.WorkingMemoryStore.initialize(memory_config) as opened:
        await opened.save(busy("c"))
        yield opened


def open_files() -> set[str]:
    """Return the open files and connections of this process."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return found


# Opening


@pytest.mark.parametrize("seconds", [100_000.0, 1e308])
async def test_a_time_limit_of_any_length_is_accepted(
    api: Api, seconds: float, config: Config, memory_config: Config
) -> None:
    limits = TIME_LIMITS.get(str(config["storage"]), [])
    given = {**config, **dict.fromkeys(limits, seconds)}
    before = dict(given)
    async with await api.MessageStore.initialize(given) as store:
        await store.store_conversation(conversation("c1"))
        assert len(await store.append_messages("c1", [message("m1")])) == 1
    assert given == before
    given = dict.fromkeys(("timeout", "lock_timeout", "ttl_seconds"), seconds)
    async with await api.WorkingMemoryStore.initialize({**memory_config, **given}) as memories:
        await memories.get_or_create("c1", "u1", "a1")
        assert (await memories.end_turn("c1", "Hello", "greet")).last_agent_response == "Hello"


async def test_where_nothing_is_said_there_is_a_json_store_in_the_current_folder(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAZZMINE_MESSAGE_STORE", raising=False)
    for config, name in ((None, "messages.json"), ({"path": "here.json"}, "here.json")):
        async with await api.MessageStore.initialize(config) as store:
            assert isinstance(store, JSONMessageStore)
            await store.store_conversation(conversation())
        assert (tmp_path / name).exists()
    async with await api.WorkingMemoryStore.initialize() as memories:
        assert isinstance(memories, InMemoryWorkingMemoryStore)
        assert await memories.active_count() == 0


# Closing


@pytest.mark.smoke
async def test_a_closed_store_refuses_every_call(store: MessageStore) -> None:
    await store.close()
    await store.close()

    for call in CALLS.values():
        with pytest.raises(StoreClosedError, match="closed"):
            await call(store)
    with pytest.raises(StoreClosedError, match="closed"):
        store.iter_messages("c1")


@pytest.mark.smoke
async def test_a_closed_working_memory_refuses_every_call(memories: WorkingMemoryStore) -> None:
    memory = await memories.get_or_create("c", "user", "agent")
    block = memories.locked("c")
    await memories.close()
    await memories.close()

    calls: list[Any] = [partial(update.on, memories, "c") for update in UPDATES]
    calls += [partial(memories.get, "c"), partial(memories.get_or_create, "c", "user", "agent")]
    calls += [partial(memories.delete, "c"), partial(memories.save, memory), memories.active_count]
    calls += [memories.locked("c").__aenter__, block.__aenter__]
    for call in calls:
        with pytest.raises(StoreClosedError, match="closed"):
            await call()


@pytest.mark.smoke
async def test_closing_one_store_leaves_another_on_the_same_data_open(
    api: Api, store: MessageStore, config: Config
) -> None:
    async with await api.MessageStore.initialize(config) as other:
        await store.close()

        await other.store_message(message())

        assert await other.get_message_by_id("m1") == message()


@pytest.mark.smoke
@pytest.mark.parametrize("yielded", [1, 0, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 2, 500])
async def test_an_iteration_does_not_continue_after_its_store_was_closed(
    store: MessageStore, yielded: int, batch_size: int
) -> None:
    iterator = store.iter_messages("c1", batch_size=batch_size)
    await take(iterator, yielded)
    await store.close()
    before = open_files()

    with pytest.raises(StoreClosedError, match="closed"):
        await take(iterator, 1)
    assert open_files() <= before


@pytest.mark.smoke
async def test_calls_under_way_while_a_store_is_closed_end_or_are_refused(
    api: Api, store: MessageStore
) -> None:
    read: Any = partial(store.get_messages_by_conversation_id, "c1", limit=3)
    appends = [partial(store.append_messages, "c1", [message(f"new{n}")]) for n in range(10)]
    began = time.monotonic()

    found = await api.settle(*appends, *[read] * 10, store.close, *[read] * 10)

    listings = [each for each in found if isinstance(each, list)]
    errors = [each for each in found if isinstance(each, BaseException)]
    assert {len(listing) for listing in listings} <= {1, 3}
    assert {type(error) for error in errors} <= {StoreClosedError}
    assert time.monotonic() - began < 20  # none waits for its deadline


@pytest.mark.smoke
async def test_a_block_whose_store_is_closed_meanwhile_opens_nothing(
    memories: WorkingMemoryStore,
) -> None:
    before: set[str] = set()
    with suppress(StoreClosedError):
        async with memories.locked("c") as memory:
            memory.end_turn("response", "intent")
            await memories.close()
            before = open_files()
        pytest.fail("the block ended as if it were saved")

    assert open_files() <= before


@pytest.mark.smoke
async def test_updates_under_way_while_a_store_is_closed_end_or_are_refused(
    api: Api, memory_config: Config
) -> None:
    before = open_files()
    memories = await api.WorkingMemoryStore.initialize(memory_config)
    for cid in ("a", "b", "c"):
        await memories.save(busy(cid))
    update = [partial(memories.end_turn, cid, "response", "intent") for cid in "aaabbbcccc"]

    found = await api.settle(*update, memories.close, *update)

    errors = [each for each in found if isinstance(each, BaseException)]
    assert {type(error) for error in errors} <= {StoreClosedError}
    assert open_files() <= before
