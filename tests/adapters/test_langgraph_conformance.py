"""LangGraph's own conformance tests of checkpointers, on stores of both APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from langgraph.checkpoint.conformance import checkpointer_test, validate

from jazzmine.adapters.langgraph import JazzmineSaver
from jazzmine.core.long_term_memory import LongTermMemoryStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore as SyncLongTermMemoryStore
from tests.behaviour.backends import Config


async def figures(registered: Any) -> tuple[int, list[str]]:
    """Run the kit, and return how many of its tests passed, and the names of the others."""
    results = (await validate(registered)).results.values()
    failures = [failure for result in results for failure in result.failures or []]
    return sum(result.tests_passed for result in results), failures


async def test_the_saver_passes_the_kit_on_an_async_store(item_config: Config) -> None:
    @checkpointer_test(name="async")
    async def saver() -> AsyncIterator[JazzmineSaver]:
        async with await LongTermMemoryStore.initialize(item_config) as items:
            yield JazzmineSaver(items)

    assert await figures(saver) == (81, [])


async def test_the_saver_passes_the_kit_on_a_sync_store(item_config: Config) -> None:
    @checkpointer_test(name="sync")
    async def saver() -> AsyncIterator[JazzmineSaver]:
        with SyncLongTermMemoryStore.initialize(item_config) as items:
            yield JazzmineSaver(items)

    assert await figures(saver) == (81, [])
