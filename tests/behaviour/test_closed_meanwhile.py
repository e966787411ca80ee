"""Calls, iterations and blocks that began before `close()` do not continue after it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import pytest

from jazzmine import StoreClosedError
from jazzmine.core.message_store import MessageStore
from jazzmine.core.working_memory import WorkingMemoryStore
from tests.behaviour.apis import Api, take
from tests.behaviour.backends import Config
from tests.behaviour.memory_samples import busy
from tests.behaviour.samples import conversation, messages

pytestmark = pytest.mark.smoke


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
        try:
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    return found


@pytest.mark.parametrize("yielded", [0, 1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 2, 500])
async def test_an_iteration_does_not_continue_after_its_store_was_closed(
    store: MessageStore, yielded: int, batch_size: int
) -> None:
    iterator = store.iter_messages("c1", batch_size=batch_size)
    await take(iterator, yielded)
    await store.close()

    with pytest.raises(StoreClosedError, match="closed"):
        await take(iterator, 1)


async def test_an_iteration_over_a_closed_store_opens_nothing(
    api: Api, store: MessageStore
) -> None:
    iterator = store.iter_messages("c1", batch_size=1)
    await take(iterator, 1)
    await store.close()
    before = open_files()

    for _ in range(3):
        await api.settle(lambda: take(iterator, 1))

    assert open_files() <= before


async def test_calls_under_way_while_a_store_is_closed_end_or_are_refused(
    api: Api,
    store: MessageStore,
) -> None:
    found = await api.settle(
        *(lambda: store.get_messages_by_conversation_id("c1") for _ in range(10)),
        store.close,
        *(lambda: store.get_messages_by_conversation_id("c1") for _ in range(10)),
    )

    listings = [each for each in found if isinstance(each, list)]
    errors = [each for each in found if isinstance(each, BaseException)]
    assert all(len(listing) == 3 for listing in listings)
    assert {type(error) for error in errors} <= {StoreClosedError}


async def test_a_block_made_before_its_store_was_closed_is_not_entered(
    memories: WorkingMemoryStore,
) -> None:
    block = memories.locked("c")
    await memories.close()

    with pytest.raises(StoreClosedError):
        async with block:
            pytest.fail("the block was entered")


async def change_in_a_block(memories: WorkingMemoryStore) -> set[str]:
    """Close the store within the block, and return the files that were open then."""
    before: set[str] = set()
    with suppress(StoreClosedError):
        async with memories.locked("c") as memory:
            memory.end_turn("response", "intent")
            await memories.close()
            before = open_files()
        pytest.fail("the block ended as if it were saved")
    return before


async def test_a_block_whose_store_is_closed_meanwhile_opens_nothing(
    memories: WorkingMemoryStore,
) -> None:
    before = await change_in_a_block(memories)

    assert open_files() <= before


async def test_updates_under_way_while_a_store_is_closed_end_or_are_refused(
    api: Api,
    memory_config: Config,
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
