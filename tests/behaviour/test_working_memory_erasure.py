"""All working memories of a user are erased, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine.core.working_memory import WorkingMemoryStore
from jazzmine.deadline import Deadline
from jazzmine.errors import LockTimeoutError
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.stored import everything

STRANGE = ["{", "}", "%7B", "wm:{a}", "{a}{b}", "%257D", "é \U0001f600", "*", "a\nb\0", "?[x]"]


async def test_nothing_of_the_user_is_left(
    memory_config: Config, memory_store: WorkingMemoryStore
) -> None:
    for name in ("c1", "c2"):
        await memory_store.get_or_create(name, "ann-9f3c", "agent")
        await memory_store.end_turn(name, "the secret of Ann", "greet")
    async with memory_store.locked("c1") as memory:
        memory.end_turn("the secret of Ann, too", "greet")
    if memory_config["storage"] != "memory":
        assert b"ann-9f3c" in everything(memory_config)
        assert b"the secret" in everything(memory_config)

    assert await memory_store.erase_user("ann-9f3c") == 2

    if memory_config["storage"] != "memory":
        assert b"ann-9f3c" not in everything(memory_config)
        assert b"the secret" not in everything(memory_config)


async def test_the_user_of_a_working_memory_is_compared_as_it_is(
    memory_store: WorkingMemoryStore,
) -> None:
    for name in STRANGE:
        await memory_store.get_or_create(name, name, "agent")

    for number, name in enumerate(STRANGE, start=1):
        assert await memory_store.erase_user(name) == 1
        assert await memory_store.active_count() == len(STRANGE) - number


@pytest.mark.smoke
async def test_a_block_is_waited_for_and_what_it_saved_is_erased(
    api: Api,
    memory_store: WorkingMemoryStore,
) -> None:
    await memory_store.get_or_create("c", "ann", "agent")

    async with memory_store.locked("c") as memory:
        erasure = api.start(lambda: memory_store.erase_user("ann"))
        await api.pause(0.2)
        memory.end_turn("Hello", "greet")
        assert not erasure.done()

    assert await erasure.result() == 1
    assert await memory_store.get("c") is None


async def test_a_block_that_does_not_end_in_time_is_an_error(
    api: Api, memory_config: Config
) -> None:
    config = {**memory_config, "lock_timeout": 0.6}
    async with await api.WorkingMemoryStore.initialize(config) as store:
        await store.get_or_create("c", "ann", "agent")
        async with store.locked("c"):
            with pytest.raises(LockTimeoutError):
                await store.erase_user("ann")
        assert await store.get("c") is not None
        assert await store.erase_user("ann") == 1


async def test_a_conversation_that_is_another_user_s_by_now_stays(
    memory_store: WorkingMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory_store.get_or_create("c", "ann", "agent")
    find = memory_store.backend.conversations

    async def find_and_change(deadline: Deadline, user_id: str | None = None) -> Any:
        found = await find(deadline, user_id)
        await memory_store.delete("c")
        await memory_store.get_or_create("c", "bob", "agent")
        return found

    monkeypatch.setattr(memory_store.backend, "conversations", find_and_change)

    assert await memory_store.erase_user("ann") == 0
    assert await memory_store.get("c") is not None
    await memory_store.end_turn("c", "Hello", "greet")


async def test_all_of_a_user_s_working_memories_are_moved_to_another_user(
    memory_store: WorkingMemoryStore,
) -> None:
    for name, user in (("a1", "guest"), ("a2", "guest"), ("b1", "bob")):
        await memory_store.get_or_create(name, user, "agent")
    await memory_store.end_turn("a1", "Hello", "greet")

    assert await memory_store.move_user("guest", "ann") == 2
    assert await memory_store.move_user("guest", "ann") == 0

    moved = await memory_store.get("a1")
    assert moved is not None
    assert (moved.user_id, moved.last_agent_response) == ("ann", "Hello")
    assert await memory_store.erase_user("guest") == 0
    assert await memory_store.erase_user("ann") == 2
    assert await memory_store.active_count() == 1
