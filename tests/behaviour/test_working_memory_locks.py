"""Updates of one conversation run one after another; those of others never wait for them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.working_memory import WorkingMemory, WorkingMemoryStore
from jazzmine.errors import LockTimeoutError, StaleWorkingMemoryError
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.memory_samples import busy


async def change_in_block(
    store: WorkingMemoryStore, cid: str, change: Callable[[WorkingMemory], object]
) -> None:
    async with store.locked(cid) as memory:
        change(memory)


def raise_later(error: BaseException) -> Callable[[WorkingMemory], object]:
    def complete_and_raise(memory: WorkingMemory) -> None:
        memory.complete_flow()
        raise error

    return complete_and_raise


def spoil(memory: WorkingMemory) -> None:
    assert memory.active_flow is not None
    memory.active_flow.branch_results["branch_1"] = object()


def collect_what_cannot_be_kept(memory: WorkingMemory) -> None:
    memory.collect_slot("size", 42)
    memory.collect_slot("colour", float("nan"))


def give_to_another(memory: WorkingMemory) -> None:
    memory.conversation_id = "other"


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (raise_later(ZeroDivisionError("stop")), ZeroDivisionError, "stop"),
        (raise_later(KeyboardInterrupt("stop")), KeyboardInterrupt, "stop"),
        (collect_what_cannot_be_kept, ValidationError, "value"),
        (spoil, ValidationError, "branch_results"),
        (give_to_another, ValueError, "conversation_id"),
    ],
)
async def test_a_block_that_fails_saves_nothing_and_frees_the_lock(
    memory_store: WorkingMemoryStore,
    change: Callable[[WorkingMemory], object],
    error: type[BaseException],
    text: str,
) -> None:
    saved = await memory_store.save(busy("c"))

    with pytest.raises(error, match=text):
        await change_in_block(memory_store, "c", change)

    assert await memory_store.get("c") == saved
    assert await memory_store.get("other") is None
    assert (await memory_store.collect_slot("c", "size", 42)).revision == 2


Call = Callable[[Any, WorkingMemory], Any]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("call", "error", "revision"),
    [
        (lambda store, read: store.collect_slot("c", "colour", "red"), None, 3),
        (lambda store, read: store.save(read), StaleWorkingMemoryError, 2),
        (lambda store, read: store.delete("c"), None, None),
    ],
    ids=["update", "save", "delete"],
)
async def test_a_call_from_elsewhere_waits_for_a_block(
    api: Api,
    memory_store: WorkingMemoryStore,
    call: Call,
    error: type[Exception] | None,
    revision: int | None,
) -> None:
    read = await memory_store.save(busy("c"))

    async with memory_store.locked("c") as memory:
        waiting = api.start(lambda: call(memory_store, read))
        await api.pause(0.05)
        was_done = waiting.done()
        memory.collect_slot("size", 42)
    with nullcontext() if error is None else pytest.raises(error):
        await waiting.result()

    assert not was_done
    stored = await memory_store.get("c")
    assert (stored and stored.revision) == revision
    assert stored is None or stored.active_flow is not None
    assert stored is None or "size" not in [slot.name for slot in stored.pending_slots]


async def test_another_block_waits_for_a_block(api: Api, memory_store: WorkingMemoryStore) -> None:
    await memory_store.save(WorkingMemory("c", "user", "agent"))

    async def count_up() -> None:
        async with memory_store.locked("c") as memory:
            number = memory.turn_number
            await api.pause(0.002)
            memory.turn_number = number + 1

    await api.gather(*[count_up] * 8)

    stored = await memory_store.get("c")
    assert stored is not None
    assert (stored.turn_number, stored.revision) == (8, 9)


@pytest.mark.smoke
async def test_different_conversations_never_wait_for_each_other(
    memory_store: WorkingMemoryStore,
) -> None:
    others = [f"other {number}" for number in range(100)]
    for cid in ["c", *others]:
        await memory_store.get_or_create(cid, "user", "agent")

    async with memory_store.locked("c"):
        updated = [await memory_store.end_turn(cid, "Hello", "greet") for cid in others]

    assert [memory.conversation_id for memory in updated] == others


@pytest.mark.smoke
async def test_waiting_too_long_for_a_lock_raises_an_error_and_leaves_the_lock_usable(
    api: Api,
    memory_config: Config,
) -> None:
    config = {**memory_config, "lock_timeout": 0.3}
    async with await api.WorkingMemoryStore.initialize(config) as store:
        await store.save(busy("c"))
        async with store.locked("c") as memory:
            began = time.monotonic()
            errors = await api.settle(
                lambda: store.end_turn("c", "Hello", "greet"), lambda: store.delete("c")
            )
            waited = time.monotonic() - began
            memory.collect_slot("size", 42)

        assert [type(error) for error in errors] == [LockTimeoutError] * 2
        said = r"'c'.* 0\.3 s: a block of this process has held .* in a locked\(\) block use"
        assert all(re.search(said, str(error)) for error in errors)
        assert waited >= 0.29

        updated = await store.collect_slot("c", "colour", "red")

        assert updated.revision == 3
        assert updated.pending_slots == []
