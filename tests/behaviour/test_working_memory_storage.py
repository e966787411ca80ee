"""Working memories are created, read, saved and deleted."""

from __future__ import annotations

from functools import partial

import pytest

from jazzmine.core.working_memory import WorkingMemoryStore
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.edge_values import TEXTS, VALUES
from tests.behaviour.memory_samples import busy, clear_deeply


@pytest.mark.smoke
async def test_ten_that_create_the_same_at_once_get_one_working_memory(
    api: Api,
    memory_store: WorkingMemoryStore,
) -> None:
    agents = [f"agent {number}" for number in range(10)]

    created = await api.gather(
        *(partial(memory_store.get_or_create, "c", "user", agent) for agent in agents)
    )

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.revision == 1
    assert stored.agent_id in agents
    assert created == [stored] * 10


async def test_what_is_saved_and_what_is_returned_are_copies(
    memory_store: WorkingMemoryStore,
) -> None:
    memory = busy("c")
    saved = await memory_store.save(memory)
    before = saved.to_dict()
    clear_deeply(memory)
    assert saved.to_dict() == before
    clear_deeply(saved)
    updated = await memory_store.end_turn("c", "Hello", "greet")
    before = updated.to_dict()
    for returned in (
        updated,
        await memory_store.get("c"),
        await memory_store.get_or_create("c", "user", "agent"),
    ):
        clear_deeply(returned)
        stored = await memory_store.get("c")
        assert stored is not None
        assert stored.to_dict() == before


async def test_get_or_create_renews_the_time_to_live_and_get_does_not(
    api: Api, memory_config: Config
) -> None:
    config = {**memory_config, "ttl_seconds": 1.2}
    async with await api.WorkingMemoryStore.initialize(config) as store:
        for conversation_id in ("renewed", "read"):
            await store.get_or_create(conversation_id, "ann", "shop")
        await api.pause(0.8)
        await store.get_or_create("renewed", "ann", "shop")
        await store.get("read")
        await api.pause(0.8)

        assert await store.get("renewed") is not None
        assert await store.get("read") is None
        assert await store.active_count() == 1


async def test_any_value_comes_back_as_it_was(memory_store: WorkingMemoryStore) -> None:
    await memory_store.save(busy("c"))
    for value in [*VALUES, *TEXTS]:
        await memory_store.collect_slot("c", "size", value)

        stored = await memory_store.get("c")
        assert stored is not None
        assert stored.active_flow is not None
        kept = stored.active_flow.slots["size"].value
        assert kept == value
        assert type(kept) is type(value)


@pytest.mark.smoke
async def test_a_text_of_a_megabyte_comes_back(memory_store: WorkingMemoryStore) -> None:
    reply = "é\0" * 500_000
    await memory_store.get_or_create("c", "user", "agent")

    await memory_store.end_turn("c", reply, "talk")

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.last_agent_response == reply
