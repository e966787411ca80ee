"""A working memory store that is scoped to a user has that user's working memories."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from jazzmine import IntegrityError, ScopeError
from jazzmine.core.working_memory import WorkingMemory, WorkingMemoryStore
from tests.behaviour.apis import Api
from tests.behaviour.memory_samples import UPDATES
from tests.behaviour.scope_samples import outcome

OTHERS, ABSENT = "c2", "c8"


async def held(own: Any, cid: str) -> Any:
    async with own.locked(cid) as memory:
        memory.end_turn("mine", "mine")
    return memory


# Each has the result that it would have if nothing were stored for the conversation.
ABOUT: dict[str, Callable[[Any, str], Any]] = {
    **{update.name: update.on for update in UPDATES},
    "delete": lambda own, cid: own.delete(cid),
    "forget_entity": lambda own, cid: own.forget_entity(cid, "Ada"),
    "resume_flow": lambda own, cid: own.resume_flow(cid),
    "restore": lambda own, cid: own.restore(cid, WorkingMemory(cid, "u1", "a1")),
    "get": lambda own, cid: own.get(cid),
    "locked": held,
    "set_data": lambda own, cid: own.set_data(cid, colour="red"),
    "update": lambda own, cid: own.update(cid, lambda memory: memory.end_turn("mine", "mine")),
}
# Called without a conversation, or storing one; what they do is tested below.
OF_THE_USER = {"active_count", "erase_user", "get_or_create", "move_user", "save"}


@pytest.fixture
async def entangled(memory_store: WorkingMemoryStore) -> AsyncIterator[WorkingMemoryStore]:
    """The working memories of two users, with the same agent."""
    await memory_store.get_or_create("c1", "u1", "a1")
    await memory_store.get_or_create("c2", "u2", "a1")
    yield memory_store
    for user in ("u1", "u2"):
        await memory_store.erase_user(user)


def test_each_method_is_called() -> None:
    methods = {
        name
        for name, _ in inspect.getmembers(WorkingMemoryStore, inspect.isfunction)
        if not name.startswith("_")
    }
    everywhere = {"close", "open", "ping", "require_open", "scoped"}

    assert {*ABOUT, *OF_THE_USER} == methods - everywhere


@pytest.mark.smoke
async def test_those_of_others_are_as_if_they_were_not_stored(
    entangled: WorkingMemoryStore,
) -> None:
    own, before = entangled.scoped(user_id="u1"), await entangled.get(OTHERS)
    for name, call in ABOUT.items():
        absent, found = [
            repr(await outcome(call, own, cid)).replace(cid, "") for cid in (ABSENT, OTHERS)
        ]

        assert found == absent, name
        assert await entangled.get(OTHERS) == before, name


async def test_those_of_others_keep_their_place(entangled: WorkingMemoryStore) -> None:
    own, before = entangled.scoped(user_id="u1"), await entangled.get(OTHERS)

    taken: list[Callable[[], Any]] = [
        lambda: own.get_or_create(OTHERS, "u1", "a1"),
        lambda: own.save(WorkingMemory(OTHERS, "u1", "a1")),
    ]
    refused: list[Callable[[], Any]] = [
        lambda: own.get_or_create("c3", "u2", "a1"),
        lambda: own.save(WorkingMemory("c3", "u2", "a1")),
        lambda: own.erase_user("u2"),
    ]

    for call in taken:
        with pytest.raises(IntegrityError, match="taken"):
            await call()
    for call in refused:
        with pytest.raises(ScopeError):
            await call()
    assert await entangled.get(OTHERS) == before
    assert await entangled.active_count() == 2


async def test_what_is_the_users_is_changed(entangled: WorkingMemoryStore) -> None:
    own = entangled.scoped(user_id="u1")

    await own.end_turn("c1", "Hello", "greet")
    await own.update("c1", lambda memory: memory.end_turn("Which one?", "ask"))
    async with own.locked("c1") as memory:
        memory.end_turn("This one", "answer")

    stored = await own.get("c1")
    assert stored is not None
    assert stored == await entangled.get("c1")
    assert stored.revision == 4
    assert (await own.save(stored)).revision == 5
    assert await own.active_count() == 1
    assert (await own.get_or_create("c3", "u1", "a1")).user_id == "u1"
    assert await own.delete("c3")
    assert await own.erase_user("u1") == 1
    assert await entangled.active_count() == 1


@pytest.mark.parametrize("method", ["delete", "erase_user"])
async def test_what_is_deleted_is_not_remembered(
    entangled: WorkingMemoryStore, method: str
) -> None:
    own = entangled.scoped(user_id="u1")
    assert await own.get("c1") is not None
    await getattr(own, method)("c1" if method == "delete" else "u1")
    await entangled.get_or_create("c1", "u2", "a1")

    assert await own.get("c1") is None


@pytest.mark.smoke
async def test_the_block_of_another_user_is_not_waited_for(
    api: Api, entangled: WorkingMemoryStore
) -> None:
    own = entangled.scoped(user_id="u1")

    async with entangled.locked(OTHERS):
        calls = [
            api.start(lambda: outcome(own.end_turn, OTHERS, "mine", "mine")),
            api.start(lambda: outcome(own.delete, OTHERS)),
            api.start(lambda: outcome(held, own, OTHERS)),
        ]
        for _ in range(200):
            if all(call.done() for call in calls):
                break
            await api.pause(0.02)
        assert all(call.done() for call in calls)

    for call in calls:
        await call.result()
