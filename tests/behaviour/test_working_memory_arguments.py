"""Which ids working memory accepts, and that no id can affect another."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.working_memory import WorkingMemory, WorkingMemoryStore
from tests.behaviour.memory_samples import UPDATES, Update

METHODS = [
    *UPDATES,
    Update("get"),
    Update("delete"),
    Update("get_or_create", lambda: ("user", "agent")),
    Update("locked"),
]
each_method = pytest.mark.parametrize("method", METHODS, ids=str)
each_wrong_id = pytest.mark.parametrize(
    "wrong", [{"$ne": ""}, None, b"c", 7, "", "\ud800", "c\udfff"], ids=ascii
)

HOSTILE_IDS = [
    "c",
    "C",
    "{c}",
    "{c",
    "c}",
    "}c{",
    "{{c}}",
    "c:1",
    "c:",
    "wm:{c}",
    "wm_lock:{c}",
    "%7Bc%7D",
    "\\{c\\}",
    "c ",
    "c\n",
    "c\0",
    "\0c",
    "*",
    "é",
    "e\u0301",
    "\U0001f600",
    "\ufeffc",
    "c\u200b",
    "x" * 1000,
    "x" * 1001,
    "{" * 1000,
]


def refusal(wrong: Any, name: str) -> AbstractContextManager[Any]:
    """Expect the error of an argument that is no id."""
    if isinstance(wrong, str):
        return pytest.raises(ValidationError, match=name)
    return pytest.raises(TypeError, match=f"{name} must be a str")


@each_method
@each_wrong_id
@pytest.mark.before_hooks
async def test_a_wrong_id_is_refused(
    memory_store: WorkingMemoryStore, method: Update, wrong: Any
) -> None:
    with refusal(wrong, "conversation_id"):
        called = method.on(memory_store, wrong)
        await (called.__aenter__() if method.name == "locked" else called)


@each_wrong_id
@pytest.mark.before_hooks
async def test_a_wrong_user_or_agent_is_refused(
    memory_store: WorkingMemoryStore, wrong: Any
) -> None:
    with refusal(wrong, "user_id"):
        await memory_store.get_or_create("c", wrong, "agent")
    with refusal(wrong, "agent_id"):
        await memory_store.get_or_create("c", "user", wrong)

    assert await memory_store.get("c") is None


async def test_a_subclass_of_str_is_the_text_that_it_holds(
    memory_store: WorkingMemoryStore,
) -> None:
    class Name(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "another"

    created = await memory_store.get_or_create(Name("c"), Name("user"), "agent")

    assert await memory_store.get("c") == created
    assert (created.conversation_id, created.user_id) == ("c", "user")


@pytest.mark.smoke
async def test_no_two_hostile_ids_share_a_working_memory(memory_store: WorkingMemoryStore) -> None:
    for number, cid in enumerate(HOSTILE_IDS):
        await memory_store.save(WorkingMemory(cid, f"user {number}", "agent"))

    stored = [await memory_store.get(cid) for cid in HOSTILE_IDS]

    assert await memory_store.active_count() == len(HOSTILE_IDS)
    users = [memory and memory.user_id for memory in stored]
    assert users == [f"user {number}" for number in range(len(HOSTILE_IDS))]
    for cid, other in pairwise(HOSTILE_IDS):
        async with memory_store.locked(cid):
            assert (await memory_store.end_turn(other, "Hello", "greet")).revision == 2
        assert await memory_store.delete(cid) is True
        assert await memory_store.get(other) is not None
