"""The suites of working memory detect stores with deliberate defects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from jazzmine._async.working_memory.hooks import Lease as AsyncLease
from jazzmine._sync.keyed_locks import KeyedLocks
from jazzmine._sync.working_memory.hooks import Lease
from jazzmine.core.working_memory import InMemoryWorkingMemoryStore as AsyncStore
from jazzmine.core.working_memory import WorkingMemory
from jazzmine.errors import LockTimeoutError, NotFoundError
from jazzmine.sync.working_memory import InMemoryWorkingMemoryStore
from tests.behaviour._async import test_working_memory_locks as async_locks
from tests.behaviour._sync import test_working_memory_locks as locks
from tests.behaviour._sync.test_memory_state_machine import MemoryMachine
from tests.mutants import run_until_it_fails


class SavesThoughTheBlockRaised(InMemoryWorkingMemoryStore):
    @contextmanager
    def locked(self, cid: str) -> Iterator[WorkingMemory]:
        with self._leased(cid) as lease:
            if lease.memory is None:
                raise NotFoundError
            try:
                yield lease.memory
            finally:
                lease.memory.to_dict()
                self._save(lease, lease.memory)


class CountsABlockTwice(InMemoryWorkingMemoryStore):
    @contextmanager
    def locked(self, cid: str) -> Iterator[WorkingMemory]:
        with super().locked(cid) as memory:
            yield memory
        self._update(cid, lambda memory: True)


class DropsWhatIsInvalidInABlock(InMemoryWorkingMemoryStore):
    @contextmanager
    def locked(self, cid: str) -> Iterator[WorkingMemory]:
        with self._leased(cid) as lease:
            if lease.memory is None:
                raise NotFoundError
            yield lease.memory
            kept = [topic for topic in lease.memory.topic_history if not isinstance(topic, str)]
            lease.memory.topic_history = kept
            self._save(lease, lease.memory)


class IgnoresTheRevision(InMemoryWorkingMemoryStore):
    def save(self, wm: WorkingMemory) -> WorkingMemory:
        stored = self.get(wm.conversation_id)
        if stored is not None:
            wm.revision = stored.revision
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
            wm.created_at = stored.created_at
        return super().save(wm)


class DoesNotCountTheSaves(InMemoryWorkingMemoryStore):
    def _save(self, lease: Lease, memory: WorkingMemory) -> None:
        self._save_and_release(lease, memory)


class SavesWhatDidNotApply(InMemoryWorkingMemoryStore):
    def _update(self, cid: str, transition: Callable[[WorkingMemory], bool]) -> WorkingMemory:
        return super()._update(cid, lambda memory: transition(memory) or True)


class KeepsTheLockOnErrors(InMemoryWorkingMemoryStore):
    @contextmanager
    def _leased(self, cid: str) -> Iterator[Lease]:
        lease = Lease(cid)
        self._acquire(lease)
        yield lease


class HandsOutWhatItKeeps(InMemoryWorkingMemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, WorkingMemory] = {}

    def _load(self, conversation_id: str, *, renew: bool = False) -> WorkingMemory | None:
        known = super()._load(conversation_id, renew=renew)
        return known and self._kept.setdefault(conversation_id, known)

    def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        self._kept[lease.conversation_id] = memory
        super()._save_and_release(lease, memory)


class TakesBracesForItsOwn(InMemoryWorkingMemoryStore):
    def _load(self, conversation_id: str, *, renew: bool = False) -> WorkingMemory | None:
        return super()._load(conversation_id.strip("{}"), renew=renew)

    def _acquire(self, lease: Lease) -> None:
        lease.conversation_id = lease.conversation_id.strip("{}")
        super()._acquire(lease)


class CreatesOverWhatIsThere(InMemoryWorkingMemoryStore):
    def get_or_create(self, cid: str, user_id: str, agent_id: str) -> WorkingMemory:
        self.delete(cid)
        return super().get_or_create(cid, user_id, agent_id)


class LetsTheLockGoAfterLoading(InMemoryWorkingMemoryStore):
    def _require_held(self, lease: Lease) -> None:
        pass

    def _acquire(self, lease: Lease) -> None:
        super()._acquire(lease)
        self._release(lease)

    def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        time.sleep(0.001)
        super()._save_and_release(lease, memory)


class AsyncThatReleasesAfterLoading(AsyncStore):
    def _require_held(self, lease: AsyncLease) -> None:
        pass

    async def _acquire(self, lease: AsyncLease) -> None:
        await super()._acquire(lease)
        await self._release(lease)

    async def _save_and_release(self, lease: AsyncLease, memory: WorkingMemory) -> None:
        await asyncio.sleep(0)
        await super()._save_and_release(lease, memory)


class OneLock(KeyedLocks[Lease]):
    def acquire(self, key: str, owner: Lease, timeout: float) -> bool:
        return super().acquire("all", owner, timeout)

    def release(self, key: str, owner: Lease) -> None:
        super().release("all", owner)

    def is_held(self, key: str, owner: Lease) -> bool:
        return super().is_held("all", owner)


class HasOneLockForAll(InMemoryWorkingMemoryStore):
    def __init__(self) -> None:
        super().__init__(lock_timeout=0.01)
        self._locks = OneLock()


def drive(broken: Callable[[], InMemoryWorkingMemoryStore]) -> None:
    """Run the state machine on a store until it finds a defect."""

    class BrokenMachine(MemoryMachine):
        def __init__(self) -> None:
            super().__init__(broken())

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
def test_the_state_machine_catches_a_store_that(
    broken: Callable[[], InMemoryWorkingMemoryStore],
) -> None:
    with pytest.raises(AssertionError):
        drive(broken)


def test_the_state_machine_catches_a_store_that_keeps_the_lock_on_errors() -> None:
    with pytest.raises(LockTimeoutError):
        drive(lambda: KeepsTheLockOnErrors(lock_timeout=0.01))


@pytest.mark.parametrize(
    "test",
    [
        locks.test_another_block_waits_for_a_block,
        locks.test_updates_of_all_kinds_at_once_are_all_kept,
        locks.test_updates_from_elsewhere_wait_for_a_block,
        locks.test_a_deletion_waits_for_a_block,
    ],
)
def test_a_store_that_releases_the_lock_after_loading_fails(
    test: Callable[[InMemoryWorkingMemoryStore], None],
) -> None:
    with pytest.raises(AssertionError):
        test(LetsTheLockGoAfterLoading())


async def test_an_async_store_that_releases_the_lock_after_loading_fails() -> None:
    with pytest.raises(AssertionError):
        await async_locks.test_of_many_at_once_no_update_is_lost(AsyncThatReleasesAfterLoading())


def test_a_store_that_has_one_lock_for_all_fails() -> None:
    with pytest.raises(LockTimeoutError):
        locks.test_different_conversations_never_wait_for_each_other(HasOneLockForAll())
