"""A store of working memory is opened, used and closed."""

from __future__ import annotations

import pytest

from jazzmine.core.working_memory import InMemoryWorkingMemoryStore
from jazzmine.errors import StoreClosedError
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.memory_samples import UPDATES, Update, busy

METHODS = [
    *UPDATES,
    Update("get"),
    Update("delete"),
    Update("get_or_create", lambda: ("user", "agent")),
]


@pytest.mark.parametrize("seconds", [100_000.0, 1e308])
async def test_a_time_limit_of_any_length_is_accepted(
    api: Api, seconds: float, memory_config: Config
) -> None:
    limits = {"timeout": seconds, "lock_timeout": seconds, "ttl_seconds": seconds}
    async with await api.WorkingMemoryStore.initialize({**memory_config, **limits}) as store:
        await store.get_or_create("c1", "u1", "a1")

        assert (await store.end_turn("c1", "Hello", "greet")).last_agent_response == "Hello"


async def test_without_a_configuration_everything_is_kept_in_this_process(api: Api) -> None:
    async with await api.WorkingMemoryStore.initialize() as store:
        assert isinstance(store, InMemoryWorkingMemoryStore)
        assert await store.active_count() == 0


async def test_closing_twice_is_closing_once(api: Api, memory_config: Config) -> None:
    store = await api.WorkingMemoryStore.initialize(memory_config)
    await store.close()

    await store.close()

    with pytest.raises(StoreClosedError):
        await store.get("c")


@pytest.mark.parametrize("method", METHODS, ids=str)
async def test_a_closed_store_refuses_every_call(
    api: Api, memory_config: Config, method: Update
) -> None:
    store = await api.WorkingMemoryStore.initialize(memory_config)
    await store.save(busy("c"))
    await store.close()

    with pytest.raises(StoreClosedError, match="initialize"):
        await method.on(store, "c")


async def test_a_closed_store_refuses_to_save_to_count_and_to_lock(
    api: Api, memory_config: Config
) -> None:
    store = await api.WorkingMemoryStore.initialize(memory_config)
    memory = await store.save(busy("c"))
    await store.close()

    with pytest.raises(StoreClosedError):
        await store.save(memory)
    with pytest.raises(StoreClosedError):
        await store.active_count()
    with pytest.raises(StoreClosedError):
        async with store.locked("c"):
            pytest.fail("the block was entered")
