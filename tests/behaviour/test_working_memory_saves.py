"""Saving a working memory: what is kept, what is refused, and which of several saves wins."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.working_memory import ToolCallRecord, WorkingMemory, WorkingMemoryStore
from jazzmine.errors import StaleWorkingMemoryError
from tests.behaviour.apis import Api
from tests.behaviour.memory_samples import busy


@pytest.mark.smoke
async def test_one_of_ten_savers_of_the_same_revision_wins(
    api: Api,
    memory_store: WorkingMemoryStore,
) -> None:
    first = await memory_store.save(busy("c"))
    versions = [WorkingMemory.from_dict(first.to_dict()) for _ in range(10)]
    for number, version in enumerate(versions):
        version.end_turn(f"reply {number}", "answer")

    outcomes = await api.settle(*(partial(memory_store.save, version) for version in versions))

    won = [each for each in outcomes if isinstance(each, WorkingMemory)]
    lost = [each for each in outcomes if isinstance(each, StaleWorkingMemoryError)]
    assert (len(won), len(lost)) == (1, 9)
    assert await memory_store.get("c") == won[0]


async def test_a_block_cannot_pass_its_working_memory_off_as_another(
    memory_store: WorkingMemoryStore,
) -> None:
    saved = await memory_store.save(busy("c"))

    async with memory_store.locked("c") as memory:
        memory.created_at, memory.revision = 1.0, 99

    stored = await memory_store.get("c")
    assert stored is not None
    assert (stored.created_at, stored.revision) == (saved.created_at, 2)


async def test_a_working_memory_that_was_made_invalid_in_place_is_not_saved(
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
