"""Working memories are created, read, saved and deleted."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.working_memory import (
    ConversationStatus,
    ToolCallRecord,
    WorkingMemory,
    WorkingMemoryStore,
)
from jazzmine.errors import StaleWorkingMemoryError
from tests.behaviour.memory_samples import TTL, busy, clear_deeply, timeless
from tests.behaviour.support.async_support import gather, pause, settle


async def test_a_conversation_without_a_working_memory_gives_none(
    memory_store: WorkingMemoryStore,
) -> None:
    assert await memory_store.get("nobody") is None


async def test_get_or_create_makes_an_idle_working_memory(memory_store: WorkingMemoryStore) -> None:
    created = await memory_store.get_or_create("c", "ann", "shop")

    assert timeless(created) == timeless(WorkingMemory("c", "ann", "shop", revision=1))
    assert created.status is ConversationStatus.IDLE
    assert await memory_store.get("c") == created


async def test_get_or_create_returns_what_is_stored_for_any_user(
    memory_store: WorkingMemoryStore,
) -> None:
    await memory_store.get_or_create("c", "ann", "shop")
    updated = await memory_store.end_turn("c", "Hello", "greet")

    returned = await memory_store.get_or_create("c", "bob", "bank")

    assert returned == updated
    assert await memory_store.get("c") == updated


async def test_ten_that_create_the_same_at_once_get_one_working_memory(
    memory_store: WorkingMemoryStore,
) -> None:
    users = [f"user {number}" for number in range(10)]

    created = await gather(
        *(partial(memory_store.get_or_create, "c", user, "agent") for user in users)
    )

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.revision == 1
    assert stored.user_id in users
    assert created == [stored] * 10


async def test_get_returns_a_copy(memory_store: WorkingMemoryStore) -> None:
    saved = await memory_store.save(busy("c"))
    read = await memory_store.get("c")

    clear_deeply(read)

    assert await memory_store.get("c") == saved


async def test_get_or_create_returns_a_copy_of_what_it_made(
    memory_store: WorkingMemoryStore,
) -> None:
    created = await memory_store.get_or_create("c", "user", "agent")

    created.agent_id = "another"
    created.entity_workspace.clear()

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.agent_id == "agent"


async def test_get_or_create_returns_a_copy_of_what_was_there(
    memory_store: WorkingMemoryStore,
) -> None:
    saved = await memory_store.save(busy("c"))
    returned = await memory_store.get_or_create("c", "user", "agent")

    clear_deeply(returned)

    assert await memory_store.get("c") == saved


async def test_save_copies_what_it_is_given(memory_store: WorkingMemoryStore) -> None:
    memory = busy("c")
    saved = await memory_store.save(memory)

    clear_deeply(memory)

    assert saved.active_flow is not None
    assert list(saved.active_flow.slots) == ["size", "colour"]
    assert await memory_store.get("c") == saved


async def test_save_returns_a_copy(memory_store: WorkingMemoryStore) -> None:
    saved = await memory_store.save(busy("c"))
    before = saved.to_dict()

    clear_deeply(saved)

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.to_dict() == before


async def test_save_keeps_everything_and_counts_itself(memory_store: WorkingMemoryStore) -> None:
    memory = busy("c")
    memory.status = ConversationStatus.ERROR
    expected = timeless(memory)

    saved = await memory_store.save(memory)

    assert timeless(saved) == {**expected, "revision": 1}
    assert saved.created_at == memory.created_at
    assert await memory_store.get("c") == saved


async def test_what_was_saved_may_be_changed_and_saved_again(
    memory_store: WorkingMemoryStore,
) -> None:
    memory = busy("c")
    await memory_store.save(memory)
    memory.collect_slot("size", 42)
    await memory_store.save(memory)
    memory.collect_slot("colour", "red")

    saved = await memory_store.save(memory)

    assert saved.revision == memory.revision == 3
    assert saved == memory
    assert await memory_store.get("c") == memory


async def test_a_working_memory_that_another_saved_since_is_refused(
    memory_store: WorkingMemoryStore,
) -> None:
    await memory_store.save(busy("c"))
    mine, other = await memory_store.get("c"), await memory_store.get("c")
    assert mine is not None
    assert other is not None
    saved = await memory_store.save(other)
    mine.end_turn("too late", "apologise")

    with pytest.raises(StaleWorkingMemoryError, match="'c'"):
        await memory_store.save(mine)

    assert await memory_store.get("c") == saved
    assert mine.revision == 1


async def test_a_working_memory_that_an_update_changed_since_is_refused(
    memory_store: WorkingMemoryStore,
) -> None:
    mine = await memory_store.save(busy("c"))
    updated = await memory_store.collect_slot("c", "size", 42)

    with pytest.raises(StaleWorkingMemoryError):
        await memory_store.save(mine)

    assert await memory_store.get("c") == updated


async def test_a_new_working_memory_does_not_replace_a_stored_one(
    memory_store: WorkingMemoryStore,
) -> None:
    saved = await memory_store.save(busy("c"))

    with pytest.raises(StaleWorkingMemoryError):
        await memory_store.save(WorkingMemory("c", "user", "agent"))

    assert await memory_store.get("c") == saved


async def test_a_stale_working_memory_is_refused_as_often_as_it_comes(
    memory_store: WorkingMemoryStore,
) -> None:
    stale = await memory_store.save(busy("c"))
    updated = await memory_store.end_turn("c", "Hello", "greet")
    with pytest.raises(StaleWorkingMemoryError):
        await memory_store.save(stale)

    with pytest.raises(StaleWorkingMemoryError):
        await memory_store.save(stale)

    assert await memory_store.get("c") == updated


async def test_the_lock_is_free_after_a_refused_save(memory_store: WorkingMemoryStore) -> None:
    stale = await memory_store.save(busy("c"))
    await memory_store.end_turn("c", "Hello", "greet")
    with pytest.raises(StaleWorkingMemoryError):
        await memory_store.save(stale)

    updated = await memory_store.collect_slot("c", "size", 42)

    assert updated.revision == 3


async def test_one_of_ten_savers_of_the_same_revision_wins(
    memory_store: WorkingMemoryStore,
) -> None:
    first = await memory_store.save(busy("c"))
    versions = [WorkingMemory.from_dict(first.to_dict()) for _ in range(10)]
    for number, version in enumerate(versions):
        version.end_turn(f"reply {number}", "answer")

    outcomes = await settle(*(partial(memory_store.save, version) for version in versions))

    won = [each for each in outcomes if isinstance(each, WorkingMemory)]
    lost = [each for each in outcomes if isinstance(each, StaleWorkingMemoryError)]
    assert (len(won), len(lost)) == (1, 9)
    assert await memory_store.get("c") == won[0]


async def test_a_working_memory_that_another_deleted_since_is_refused(
    memory_store: WorkingMemoryStore,
) -> None:
    memory = busy("c")
    await memory_store.save(memory)
    await memory_store.delete("c")

    with pytest.raises(StaleWorkingMemoryError, match="is gone"):
        await memory_store.save(memory)

    assert await memory_store.get("c") is None
    assert memory.revision == 1


async def test_a_working_memory_that_another_made_anew_since_is_refused(
    memory_store: WorkingMemoryStore,
) -> None:
    memory = await memory_store.get_or_create("c", "ann", "shop")
    await memory_store.delete("c")
    anew = await memory_store.get_or_create("c", "bob", "bank")
    assert anew.revision == memory.revision

    with pytest.raises(StaleWorkingMemoryError, match="another one"):
        await memory_store.save(memory)

    assert await memory_store.get("c") == anew


async def test_a_working_memory_that_expired_since_is_refused(
    brief_memory_store: WorkingMemoryStore,
) -> None:
    memory = await brief_memory_store.get_or_create("c", "ann", "shop")
    await pause(1.05 * TTL)

    with pytest.raises(StaleWorkingMemoryError, match="is gone"):
        await brief_memory_store.save(memory)

    assert await brief_memory_store.get("c") is None


async def test_a_block_cannot_pass_its_working_memory_off_as_another(
    memory_store: WorkingMemoryStore,
) -> None:
    saved = await memory_store.save(busy("c"))

    async with memory_store.locked("c") as memory:
        memory.created_at, memory.revision = 1.0, 99

    stored = await memory_store.get("c")
    assert stored is not None
    assert (stored.created_at, stored.revision) == (saved.created_at, 2)


async def test_get_or_create_renews_the_time_to_live_and_get_does_not(
    brief_memory_store: WorkingMemoryStore,
) -> None:
    for conversation_id in ("renewed", "read"):
        await brief_memory_store.get_or_create(conversation_id, "ann", "shop")
    await pause(0.65 * TTL)
    await brief_memory_store.get_or_create("renewed", "ann", "shop")
    await brief_memory_store.get("read")
    await pause(0.65 * TTL)

    assert await brief_memory_store.get("renewed") is not None
    assert await brief_memory_store.get("read") is None
    assert await brief_memory_store.active_count() == 1


async def test_an_open_store_answers_a_ping(memory_store: WorkingMemoryStore) -> None:
    await memory_store.ping()

    assert await memory_store.active_count() == 0


async def test_what_was_made_invalid_in_place_is_not_saved(
    memory_store: WorkingMemoryStore,
) -> None:
    memory = await memory_store.save(busy("c"))
    before = await memory_store.get("c")
    assert memory.active_flow is not None
    memory.active_flow.branch_results["branch_1"] = float("nan")

    with pytest.raises(ValidationError, match="branch_results"):
        await memory_store.save(memory)

    assert await memory_store.get("c") == before
    assert memory.revision == 1


@pytest.mark.parametrize("other", [None, {"conversation_id": "c"}, "c", ToolCallRecord("t", {})])
async def test_only_a_working_memory_is_saved(memory_store: WorkingMemoryStore, other: Any) -> None:
    with pytest.raises(TypeError, match="WorkingMemory"):
        await memory_store.save(other)

    assert await memory_store.active_count() == 0


async def test_delete_says_whether_there_was_a_working_memory(
    memory_store: WorkingMemoryStore,
) -> None:
    await memory_store.save(busy("c"))

    was_there = await memory_store.delete("c")
    was_still_there = await memory_store.delete("c")

    assert was_there is True
    assert was_still_there is False
    assert await memory_store.get("c") is None


async def test_a_deleted_conversation_starts_fresh(memory_store: WorkingMemoryStore) -> None:
    await memory_store.save(busy("c"))
    await memory_store.delete("c")

    created = await memory_store.get_or_create("c", "bob", "bank")

    assert timeless(created) == timeless(WorkingMemory("c", "bob", "bank", revision=1))


async def test_delete_leaves_other_conversations_alone(memory_store: WorkingMemoryStore) -> None:
    await memory_store.save(busy("c"))
    other = await memory_store.save(busy("other"))

    await memory_store.delete("c")

    assert await memory_store.get("other") == other


async def test_active_count_is_that_of_the_conversations_with_a_working_memory(
    memory_store: WorkingMemoryStore,
) -> None:
    empty = await memory_store.active_count()
    for cid in ("a", "b", "c"):
        await memory_store.get_or_create(cid, "user", "agent")
    await memory_store.get_or_create("a", "user", "agent")
    await memory_store.end_turn("b", "Hello", "greet")
    three = await memory_store.active_count()

    await memory_store.delete("b")

    assert (empty, three, await memory_store.active_count()) == (0, 3, 2)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="none"),
        pytest.param(-(2**63), id="smallest-integer"),
        pytest.param(2**63 - 1, id="largest-integer"),
        pytest.param(1.7976931348623157e308, id="largest-float"),
        pytest.param(5e-324, id="smallest-float"),
        pytest.param(0.1 + 0.2, id="long-float"),
        pytest.param("NaN, Infinity and -Infinity", id="names-of-no-numbers"),
        pytest.param('\0 \x7f \u2028 \ufeff "\\ \U0001f600', id="odd-characters"),
        pytest.param("", id="empty-text"),
        pytest.param([[], {}, [None], {"": [{}]}], id="empty-containers"),
        pytest.param({"b": 1, "a": {"NaN": True}}, id="object"),
    ],
)
async def test_a_value_comes_back_as_it_was(memory_store: WorkingMemoryStore, value: Any) -> None:
    await memory_store.save(busy("c"))

    await memory_store.collect_slot("c", "size", value)

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.active_flow is not None
    kept = stored.active_flow.slots["size"].value
    assert kept == value
    assert type(kept) is type(value)


async def test_nesting_as_deep_as_is_allowed_comes_back(memory_store: WorkingMemoryStore) -> None:
    value: list[Any] = []
    for _ in range(63):
        value = [value]
    await memory_store.save(busy("c"))

    await memory_store.collect_slot("c", "size", value)

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.active_flow is not None
    assert stored.active_flow.slots["size"].value == value


async def test_a_text_of_a_megabyte_comes_back(memory_store: WorkingMemoryStore) -> None:
    reply = "é\0" * 500_000
    await memory_store.get_or_create("c", "user", "agent")

    await memory_store.end_turn("c", reply, "talk")

    stored = await memory_store.get("c")
    assert stored is not None
    assert stored.last_agent_response == reply
