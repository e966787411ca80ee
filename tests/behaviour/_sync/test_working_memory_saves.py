"""Saving a working memory: what is kept, what is refused, and which of several saves wins."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.sync.working_memory import (
    ConversationStatus,
    ToolCallRecord,
    WorkingMemory,
    WorkingMemoryStore,
)
from jazzmine.errors import StaleWorkingMemoryError
from tests.behaviour.backends import Config
from tests.behaviour.memory_samples import busy, timeless
from tests.behaviour.support.sync_support import pause, settle


def test_save_keeps_everything_and_counts_itself(memory_store: WorkingMemoryStore) -> None:
    memory = busy("c")
    memory.status = ConversationStatus.ERROR
    expected = timeless(memory)

    saved = memory_store.save(memory)

    assert timeless(saved) == {**expected, "revision": 1}
    assert saved.created_at == memory.created_at
    assert memory_store.get("c") == saved


def test_a_saved_working_memory_may_be_changed_and_saved_again(
    memory_store: WorkingMemoryStore,
) -> None:
    memory = busy("c")
    memory_store.save(memory)
    memory.collect_slot("size", 42)
    memory_store.save(memory)
    memory.collect_slot("colour", "red")

    saved = memory_store.save(memory)

    assert saved.revision == memory.revision == 3
    assert saved == memory
    assert memory_store.get("c") == memory


@pytest.mark.smoke
def test_a_working_memory_that_another_saved_since_is_refused(
    memory_store: WorkingMemoryStore,
) -> None:
    memory_store.save(busy("c"))
    mine, other = memory_store.get("c"), memory_store.get("c")
    assert mine is not None
    assert other is not None
    saved = memory_store.save(other)
    mine.end_turn("too late", "apologise")

    with pytest.raises(StaleWorkingMemoryError, match="'c'"):
        memory_store.save(mine)

    assert memory_store.get("c") == saved
    assert mine.revision == 1


def test_a_working_memory_that_an_update_changed_since_is_refused(
    memory_store: WorkingMemoryStore,
) -> None:
    mine = memory_store.save(busy("c"))
    updated = memory_store.collect_slot("c", "size", 42)

    with pytest.raises(StaleWorkingMemoryError):
        memory_store.save(mine)

    assert memory_store.get("c") == updated


def test_a_new_working_memory_does_not_replace_a_stored_one(
    memory_store: WorkingMemoryStore,
) -> None:
    saved = memory_store.save(busy("c"))

    with pytest.raises(StaleWorkingMemoryError):
        memory_store.save(WorkingMemory("c", "user", "agent"))

    assert memory_store.get("c") == saved


def test_a_stale_working_memory_is_refused_as_often_as_it_comes(
    memory_store: WorkingMemoryStore,
) -> None:
    stale = memory_store.save(busy("c"))
    updated = memory_store.end_turn("c", "Hello", "greet")
    with pytest.raises(StaleWorkingMemoryError):
        memory_store.save(stale)

    with pytest.raises(StaleWorkingMemoryError):
        memory_store.save(stale)

    assert memory_store.get("c") == updated


def test_the_lock_is_free_after_a_refused_save(memory_store: WorkingMemoryStore) -> None:
    stale = memory_store.save(busy("c"))
    memory_store.end_turn("c", "Hello", "greet")
    with pytest.raises(StaleWorkingMemoryError):
        memory_store.save(stale)

    updated = memory_store.collect_slot("c", "size", 42)

    assert updated.revision == 3


@pytest.mark.smoke
def test_one_of_ten_savers_of_the_same_revision_wins(
    memory_store: WorkingMemoryStore,
) -> None:
    first = memory_store.save(busy("c"))
    versions = [WorkingMemory.from_dict(first.to_dict()) for _ in range(10)]
    for number, version in enumerate(versions):
        version.end_turn(f"reply {number}", "answer")

    outcomes = settle(*(partial(memory_store.save, version) for version in versions))

    won = [each for each in outcomes if isinstance(each, WorkingMemory)]
    lost = [each for each in outcomes if isinstance(each, StaleWorkingMemoryError)]
    assert (len(won), len(lost)) == (1, 9)
    assert memory_store.get("c") == won[0]


def test_a_working_memory_that_another_deleted_since_is_refused(
    memory_store: WorkingMemoryStore,
) -> None:
    memory = busy("c")
    memory_store.save(memory)
    memory_store.delete("c")

    with pytest.raises(StaleWorkingMemoryError, match="is gone"):
        memory_store.save(memory)

    assert memory_store.get("c") is None
    assert memory.revision == 1


def test_a_working_memory_that_another_created_again_since_is_refused(
    memory_store: WorkingMemoryStore,
) -> None:
    memory = memory_store.get_or_create("c", "ann", "shop")
    memory_store.delete("c")
    anew = memory_store.get_or_create("c", "bob", "bank")
    assert anew.revision == memory.revision

    with pytest.raises(StaleWorkingMemoryError, match="another one"):
        memory_store.save(memory)

    assert memory_store.get("c") == anew


def test_a_working_memory_that_expired_since_is_refused(
    memory_config: Config,
) -> None:
    with WorkingMemoryStore.initialize({**memory_config, "ttl_seconds": 0.3}) as store:
        memory = store.get_or_create("c", "ann", "shop")
        pause(0.4)

        with pytest.raises(StaleWorkingMemoryError, match="is gone"):
            store.save(memory)

        assert store.get("c") is None


def test_a_block_cannot_pass_its_working_memory_off_as_another(
    memory_store: WorkingMemoryStore,
) -> None:
    saved = memory_store.save(busy("c"))

    with memory_store.locked("c") as memory:
        memory.created_at, memory.revision = 1.0, 99

    stored = memory_store.get("c")
    assert stored is not None
    assert (stored.created_at, stored.revision) == (saved.created_at, 2)


def test_a_working_memory_that_was_made_invalid_in_place_is_not_saved(
    memory_store: WorkingMemoryStore,
) -> None:
    memory = memory_store.save(busy("c"))
    before = memory_store.get("c")
    assert memory.active_flow is not None
    memory.active_flow.branch_results["branch_1"] = float("nan")

    with pytest.raises(ValidationError, match="branch_results"):
        memory_store.save(memory)

    assert memory_store.get("c") == before
    assert memory.revision == 1


@pytest.mark.parametrize("other", [None, {"conversation_id": "c"}, "c", ToolCallRecord("t", {})])
def test_only_a_working_memory_is_saved(memory_store: WorkingMemoryStore, other: Any) -> None:
    with pytest.raises(TypeError, match="WorkingMemory"):
        memory_store.save(other)

    assert memory_store.active_count() == 0
