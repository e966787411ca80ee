"""The suites of working memory detect stores with deliberate defects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from jazzmine._sync.keyed_locks import KeyedLocks
from jazzmine._sync.working_memory.backend import Again
from jazzmine._sync.working_memory.memory import MemoryBackend
from jazzmine._sync.working_memory.updates import Block
from jazzmine.config import MemoryOptions
from jazzmine.deadline import Deadline
from jazzmine.errors import LockLostError, LockTimeoutError, NotAppliedError
from jazzmine.records.memory_base import checked_copy, set_unvalidated
from jazzmine.records.stored_memory import Locked, Save, Stored, new_mark
from jazzmine.sync.working_memory import (
    InMemoryWorkingMemoryStore,
    WorkingMemory,
    WorkingMemoryStore,
)
from tests.behaviour import test_working_memory_locks as locks
from tests.behaviour import test_working_memory_turns as turns
from tests.behaviour import test_working_memory_update as update
from tests.behaviour.apis import SYNC, Api, as_async
from tests.behaviour.test_memory_state_machine import MemoryMachine
from tests.faults.unordered import Unordered
from tests.mutants import run_until_it_fails

Test = Callable[[Api, Any], Awaitable[None]]


class SavesThoughTheBlockRaised(InMemoryWorkingMemoryStore):
    @contextmanager
    def locked(self, cid: str, message_id: str | None = None) -> Iterator[WorkingMemory]:
        with super().locked(cid) as memory:
            try:
                yield memory
            except BaseException:
                changed = checked_copy(memory, WorkingMemory, "wm")
                self.backend.write(
                    Save(cid, new_mark(), self._load(cid).mark, changed, changed),
                    lambda stored: stored,
                    Deadline(1.0),
                )
                raise


class CountsABlockTwice(InMemoryWorkingMemoryStore):
    @contextmanager
    def locked(self, cid: str, message_id: str | None = None) -> Iterator[WorkingMemory]:
        with super().locked(cid) as memory:
            yield memory
        self.update(cid, lambda memory: True)


class DropsWhatIsInvalidInABlock(InMemoryWorkingMemoryStore):
    @contextmanager
    def locked(self, cid: str, message_id: str | None = None) -> Iterator[WorkingMemory]:
        with super().locked(cid) as memory:
            yield memory
            kept = [topic for topic in memory.topic_history if not isinstance(topic, str)]
            memory.topic_history = kept


class IgnoresTheRevision(InMemoryWorkingMemoryStore):
    def save(self, wm: WorkingMemory) -> WorkingMemory:
        stored = self.get(wm.conversation_id)
        if stored is not None:
            wm.revision, wm.version_token = stored.revision, stored.version_token
        return super().save(wm)


class SavesWhatIsGone(InMemoryWorkingMemoryStore):
    def save(self, wm: WorkingMemory) -> WorkingMemory:
        if self.get(wm.conversation_id) is None:
            wm.revision = 0
        return super().save(wm)


class SavesOverOneMadeAnew(InMemoryWorkingMemoryStore):
    def save(self, wm: WorkingMemory) -> WorkingMemory:
        stored = self.get(wm.conversation_id)
        if stored is not None:
            wm.version_token = stored.version_token
        return super().save(wm)


class _DoesNotCount(MemoryBackend):
    def write(self, save: Save, again: Again, deadline: Deadline) -> Save | Locked | Stored:
        if isinstance(save.data, WorkingMemory) and save.data.revision > 1:
            set_unvalidated(save.data, revision=save.data.revision - 1)
        return super().write(save, again, deadline)


class DoesNotCountTheSaves(WorkingMemoryStore):
    def __init__(self) -> None:
        super().__init__(_DoesNotCount(3600.0), MemoryOptions())


class SavesWhatDidNotApply(InMemoryWorkingMemoryStore):
    def complete_flow(self, cid: str, flow_id: str | None = None) -> WorkingMemory:
        def complete(memory: WorkingMemory) -> None:
            with suppress(NotAppliedError):
                memory.complete_flow(flow_id)

        return self.update(cid, complete)


class KeepsTheLockOnErrors(InMemoryWorkingMemoryStore):
    def __init__(self) -> None:
        super().__init__(lock_timeout=0.01)
        self._end_block = lambda *_: None  # type: ignore[method-assign]


class HandsOutWhatItKeeps(InMemoryWorkingMemoryStore):
    def get_or_create(self, cid: str, user_id: str, agent_id: str) -> WorkingMemory:
        super().get_or_create(cid, user_id, agent_id)
        kept = self._load(cid).data
        assert isinstance(kept, WorkingMemory)
        return kept


class _WithoutBraces(MemoryBackend):
    def load(
        self,
        conversation_id: str,
        deadline: Deadline,
        *,
        renew: bool = False,
    ) -> Stored:
        return super().load(conversation_id.strip("{}"), deadline, renew=renew)

    def write(self, save: Save, again: Again, deadline: Deadline) -> Save | Locked | Stored:
        plain = save._replace(conversation_id=save.conversation_id.strip("{}"))
        return super().write(plain, again, deadline)


class TakesBracesForItsOwn(WorkingMemoryStore):
    def __init__(self) -> None:
        super().__init__(_WithoutBraces(3600.0), MemoryOptions())


class CreatesOverWhatIsThere(InMemoryWorkingMemoryStore):
    def get_or_create(self, cid: str, user_id: str, agent_id: str) -> WorkingMemory:
        self.delete(cid)
        return super().get_or_create(cid, user_id, agent_id)


class LetsTheLockGoAfterLoading(InMemoryWorkingMemoryStore):
    def __init__(self) -> None:
        super().__init__()
        take = self._lock

        def take_and_let_go(block: Block) -> Stored:
            stored = take(block)
            self._calls.release(block.conversation_id, block)
            return stored

        self._lock = take_and_let_go  # type: ignore[method-assign]


class SavesTheFirstResult(InMemoryWorkingMemoryStore):
    """Saves what it made of an older state over what is stored now."""

    def update(
        self,
        conversation_id: str,
        transition: Callable[[WorkingMemory], bool | None],
        message_id: str | None = None,
    ) -> WorkingMemory:
        memory = self.get(conversation_id)
        assert memory is not None
        transition(memory)
        self._change(conversation_id, lambda _: memory)
        return memory


class AppliesAMessageTwice(InMemoryWorkingMemoryStore):
    def update(
        self,
        conversation_id: str,
        transition: Callable[[WorkingMemory], bool | None],
        message_id: str | None = None,
    ) -> WorkingMemory:
        return super().update(conversation_id, transition)


class OneLock(KeyedLocks[Deadline | Block]):
    def try_acquire(self, key: str, owner: Deadline | Block) -> bool:
        return super().try_acquire("all", owner)

    def acquire(self, key: str, owner: Deadline | Block, timeout: float) -> bool:
        return super().acquire("all", owner, timeout)

    def release(self, key: str, owner: Deadline | Block) -> None:
        super().release("all", owner)

    def holder(self, key: str) -> Deadline | Block | None:
        return super().holder("all")


class HasOneLockForAll(InMemoryWorkingMemoryStore):
    def __init__(self) -> None:
        super().__init__(lock_timeout=0.01)
        self._calls = OneLock()


def drive(broken: Callable[[], WorkingMemoryStore]) -> None:
    """Run the state machine on a store until it finds a defect."""

    async def opened() -> Any:
        return as_async(broken())

    class BrokenMachine(MemoryMachine):
        def __init__(self) -> None:
            super().__init__(opened())

    run_until_it_fails(BrokenMachine)


@pytest.mark.parametrize(
    "broken",
    [
        SavesThoughTheBlockRaised,
        CountsABlockTwice,
        DropsWhatIsInvalidInABlock,
        IgnoresTheRevision,
        SavesWhatIsGone,
        SavesOverOneMadeAnew,
        DoesNotCountTheSaves,
        SavesWhatDidNotApply,
        HandsOutWhatItKeeps,
        TakesBracesForItsOwn,
        CreatesOverWhatIsThere,
    ],
)
def test_the_state_machine_catches_a_store_that(broken: Callable[[], WorkingMemoryStore]) -> None:
    with pytest.raises(AssertionError):
        drive(broken)


def test_the_state_machine_catches_a_store_that_keeps_the_lock_on_errors() -> None:
    with pytest.raises(LockTimeoutError):
        drive(KeepsTheLockOnErrors)


async def update_from_elsewhere(api: Api, store: Any) -> None:
    def update(store: Any, read: WorkingMemory) -> Any:
        return store.collect_slot("c", "colour", "red")

    await locks.test_a_call_from_elsewhere_waits_for_a_block(api, store, update, None, 3)


@pytest.mark.parametrize(
    "test",
    [
        locks.test_another_block_waits_for_a_block,
        update_from_elsewhere,
    ],
)
async def test_a_store_that_releases_the_lock_after_loading_fails(test: Test) -> None:
    with pytest.raises((AssertionError, LockLostError)):
        await test(SYNC, as_async(LetsTheLockGoAfterLoading()))


@pytest.mark.parametrize("broken", [Unordered, SavesTheFirstResult])
async def test_a_store_that_loses_what_functions_change_at_once_fails(
    broken: Callable[[], WorkingMemoryStore],
) -> None:
    with pytest.raises(AssertionError):
        await update.test_functions_at_once_are_all_applied(SYNC, as_async(broken()))


async def test_a_store_that_has_one_lock_for_all_fails() -> None:
    store = as_async(HasOneLockForAll())
    with pytest.raises(LockTimeoutError):
        await locks.test_different_conversations_never_wait_for_each_other(store)


async def test_a_store_that_applies_a_message_twice_fails() -> None:
    store = as_async(AppliesAMessageTwice())
    await store.get_or_create("c", "ann", "agent")
    with pytest.raises(AssertionError):
        await turns.test_the_change_of_a_message_is_made_once(store)
