"""The working-memory store: what every back end promises, and how it locks, loads and saves."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from jazzmine._async.tracing import traced
from jazzmine._async.working_memory.hooks import Lease, WorkingMemoryHooks
from jazzmine.errors import LockLostError, NotFoundError, StaleWorkingMemoryError
from jazzmine.records.arguments import require_id
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation, Slot
from jazzmine.records.memory_base import checked_copy, set_unvalidated, with_class
from jazzmine.records.memory_copy import deep_copy
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["WorkingMemoryStore"]


@traced("jazzmine.working_memory")
class WorkingMemoryStore(WorkingMemoryHooks):
    """What each conversation is in the middle of.

    One conversation's updates run one after another, different conversations never wait for
    each other. Each update is a method of `WorkingMemory` of the same name: it locks, loads,
    calls that method, saves, and returns the new state, which belongs to the caller.

    Every method raises `TypeError` for an id or a record of another type, `ValidationError`
    for a value that the back ends cannot hold, `StoreClosedError` after `close()`,
    `StoreUnavailableError` when the server cannot be reached, and `NewerFormatError` for a
    working memory that a newer version of this library wrote. Those that update raise
    `NotFoundError` if the conversation has no working memory, `LockTimeoutError` if its lock
    was not free within `lock_timeout`, and `LockLostError` if the lock expired meanwhile.
    """

    #: The class of the working memories; a subclass of the store may name a subclass of it
    #: that sets other limits.
    memory_type: ClassVar[type[WorkingMemory]] = WorkingMemory

    @classmethod
    async def initialize(
        cls, config: Mapping[str, object] | str | None = None
    ) -> WorkingMemoryStore:
        """Open a store.

        Args:
            config: a mapping with `storage` ("memory" by default) and the options of that back
                end, or a URL; None takes the URL in the environment variable
                JAZZMINE_WORKING_MEMORY, or else keeps everything in this process.

        Raises:
            ConfigurationError: the configuration has an unknown key or a wrong value.
            ImportError: the back end's driver is not installed.
            StoreUnavailableError: the server cannot be reached.
        """
        # Only a program that opens a store pays for this import.
        from jazzmine._async.working_memory.factory import new_store
        from jazzmine.config import working_memory_config

        store: WorkingMemoryStore = new_store(working_memory_config(config))
        return await store._opened()

    # Whole working memories

    async def get(self, conversation_id: str) -> WorkingMemory | None:
        """Return a conversation's working memory, or None; waits for no lock."""
        self._check()
        return await self._load(require_id("conversation_id", conversation_id))

    async def get_or_create(
        self, conversation_id: str, user_id: str, agent_id: str
    ) -> WorkingMemory:
        """Return a conversation's working memory, a new one if it has none.

        Either way its time to live starts anew.
        """
        self._check()
        new = self.memory_type(
            require_id("conversation_id", conversation_id),
            require_id("user_id", user_id),
            require_id("agent_id", agent_id),
        )
        known = await self._load(conversation_id, renew=True)
        if known is not None:
            return known
        async with self._leased(conversation_id) as lease:
            if lease.memory is not None:
                await self._release(lease)
                return deep_copy(lease.memory)
            await self._save(lease, new)
        return deep_copy(new)

    async def save(self, wm: WorkingMemory) -> WorkingMemory:
        """Save a working memory as it is, unless the stored one is not the one that was read.

        One that was never stored (its `revision` is 0) is saved only where nothing is stored;
        set it to 0 to bring one in from elsewhere, such as a backup. The one that is passed
        counts as read anew afterwards: its `revision` is the new one.

        Raises:
            StaleWorkingMemoryError: the stored one was saved, deleted or made anew since.
        """
        self._check()
        saved = with_class(checked_copy(wm, WorkingMemory, "wm"), self.memory_type)
        async with self._leased(saved.conversation_id) as lease:
            _refuse_stale(saved, lease.memory)
            saved.last_updated = time.time()
            await self._save(lease, saved)
        wm.revision, wm.last_updated = saved.revision, saved.last_updated
        return deep_copy(saved)

    async def delete(self, conversation_id: str) -> bool:
        """Delete a conversation's working memory; True if it had one."""
        self._check()
        async with self._leased(require_id("conversation_id", conversation_id)) as lease:
            return await self._delete(lease)

    async def erase_user(self, user_id: str) -> int:
        """Delete all working memories of a user, one after another, each under its lock.

        Those that cannot be read, or that were moved aside for that, are deleted as well. A
        `locked` block is waited for. A call that failed has deleted a part; repeated, it deletes
        the rest.

        Returns:
            How many were deleted.
        """
        self._check()
        owner = require_id("user_id", user_id)
        erased = 0
        for conversation_id in await self._conversations_of(owner):
            self._check()
            erased += await self._erase(conversation_id, owner)
        return erased

    async def active_count(self) -> int:
        """Return how many conversations have a working memory."""
        self._check()
        return await self._count()

    @asynccontextmanager
    async def locked(self, conversation_id: str) -> AsyncIterator[WorkingMemory]:
        """Hold a conversation's lock for a block, and save once at its end.

        The block gets the working memory and calls its methods (`wm.collect_slot(...)`); the
        store's own methods for this conversation would wait for the block. Nothing is saved
        if the block raises, or in a process that was forked inside the block: there its end
        raises `LockLostError`.
        """
        self._check()
        process = os.getpid()
        async with self._leased(require_id("conversation_id", conversation_id)) as lease:
            memory = deep_copy(_found(lease))
            revision, created_at = memory.revision, memory.created_at
            async with self._renewing(lease):
                yield memory
                _require_process(process, lease)
            # The block may have changed anything in place, so the result is checked.
            changed = with_class(checked_copy(memory, WorkingMemory, "wm"), self.memory_type)
            if changed.conversation_id != lease.conversation_id:
                raise ValueError(
                    f"conversation {lease.conversation_id!r} was given another conversation_id"
                )
            changed.revision, changed.created_at = revision, created_at
            self._check()  # the store may have been closed during the block
            await self._save(lease, changed)
        memory.revision, memory.created_at = changed.revision, created_at

    # Transitions

    async def begin_turn(self, conversation_id: str, turn_cache: TurnCache) -> WorkingMemory:
        """Enter a turn; see `WorkingMemory.begin_turn`."""
        return await self._update(conversation_id, lambda wm: wm.begin_turn(turn_cache))

    async def end_turn(
        self, conversation_id: str, agent_response: str, agent_intent: str, topic_summary: str = ""
    ) -> WorkingMemory:
        """Remember the reply; see `WorkingMemory.end_turn`."""
        return await self._update(
            conversation_id, lambda wm: wm.end_turn(agent_response, agent_intent, topic_summary)
        )

    async def start_flow(self, conversation_id: str, flow_state: ActiveFlowState) -> WorkingMemory:
        """Make a flow the active one; see `WorkingMemory.start_flow`."""
        return await self._update(conversation_id, lambda wm: wm.start_flow(flow_state))

    async def advance_sequential_step(
        self, conversation_id: str, step_result: dict[str, Any]
    ) -> WorkingMemory:
        """Finish a step of the flow; see `WorkingMemory.advance_sequential_step`."""
        return await self._update(
            conversation_id, lambda wm: wm.advance_sequential_step(step_result)
        )

    async def record_branch_result(
        self, conversation_id: str, branch_id: str, result: Any
    ) -> WorkingMemory:
        """Finish a branch of the flow; see `WorkingMemory.record_branch_result`."""
        return await self._update(
            conversation_id, lambda wm: wm.record_branch_result(branch_id, result)
        )

    async def set_condition_branch(self, conversation_id: str, branch: str) -> WorkingMemory:
        """Keep where the flow's condition led; see `WorkingMemory.set_condition_branch`."""
        return await self._update(conversation_id, lambda wm: wm.set_condition_branch(branch))

    async def record_tool_call(self, conversation_id: str, record: ToolCallRecord) -> WorkingMemory:
        """Keep a tool call; see `WorkingMemory.record_tool_call`."""
        return await self._update(conversation_id, lambda wm: wm.record_tool_call(record))

    async def register_slots(self, conversation_id: str, slots: Iterable[Slot]) -> WorkingMemory:
        """Say what the flow is to ask for; see `WorkingMemory.register_slots`."""
        return await self._update(conversation_id, lambda wm: wm.register_slots(slots))

    async def collect_slot(
        self, conversation_id: str, slot_name: str, value: Any, validation_error: str = ""
    ) -> WorkingMemory:
        """Keep the answer for a slot; see `WorkingMemory.collect_slot`."""
        return await self._update(
            conversation_id, lambda wm: wm.collect_slot(slot_name, value, validation_error)
        )

    async def request_confirmation(
        self, conversation_id: str, confirmation: PendingConfirmation
    ) -> WorkingMemory:
        """Wait for the user's yes; see `WorkingMemory.request_confirmation`."""
        return await self._update(conversation_id, lambda wm: wm.request_confirmation(confirmation))

    async def confirm_action(self, conversation_id: str) -> WorkingMemory:
        """Take the user's yes; see `WorkingMemory.confirm_action`."""
        return await self._update(conversation_id, lambda wm: wm.confirm_action())

    async def complete_flow(self, conversation_id: str) -> WorkingMemory:
        """Archive the flow as completed; see `WorkingMemory.complete_flow`."""
        return await self._update(conversation_id, lambda wm: wm.complete_flow())

    async def cancel_flow(self, conversation_id: str) -> WorkingMemory:
        """Archive the flow as cancelled; see `WorkingMemory.cancel_flow`."""
        return await self._update(conversation_id, lambda wm: wm.cancel_flow())

    async def fail_flow(self, conversation_id: str) -> WorkingMemory:
        """Archive the flow as failed; see `WorkingMemory.fail_flow`."""
        return await self._update(conversation_id, lambda wm: wm.fail_flow())

    # How an update goes

    async def _update(
        self, conversation_id: str, transition: Callable[[WorkingMemory], bool]
    ) -> WorkingMemory:
        self._check()
        async with self._leased(require_id("conversation_id", conversation_id)) as lease:
            memory = _found(lease)
            if transition(memory):
                await self._save(lease, memory)
            else:
                await self._release(lease)
            return deep_copy(memory)

    async def _save(self, lease: Lease, memory: WorkingMemory) -> None:
        set_unvalidated(memory, revision=memory.revision + 1)
        await self._save_and_release(lease, memory)

    @asynccontextmanager
    async def _leased(self, conversation_id: str) -> AsyncIterator[Lease]:
        process = os.getpid()
        lease = Lease(conversation_id)
        try:
            await self._acquire(lease)
            # The store may have been closed while this waited for the lock.
            self._check()
            yield lease
        except BaseException as error:
            # In a process forked since, the lock is the parent's.
            if os.getpid() == process:
                await self._release_after_error(lease, error)
            raise


def _found(lease: Lease) -> WorkingMemory:
    if lease.memory is None:
        raise NotFoundError(
            f"conversation {lease.conversation_id!r} has no working memory;"
            " get_or_create() makes one"
        )
    return lease.memory


def _refuse_stale(saved: WorkingMemory, stored: WorkingMemory | None) -> None:
    """Raise `StaleWorkingMemoryError` unless the stored one is the one that was read."""
    if stored is None:
        if saved.revision == 0:
            return
        now = "is gone"
    elif stored.created_at != saved.created_at:
        now = "is another one, made since"
    elif stored.revision != saved.revision:
        now = f"is at revision {stored.revision}"
    else:
        return
    raise StaleWorkingMemoryError(
        f"the working memory of conversation {saved.conversation_id!r} was read at revision"
        f" {saved.revision}, and the stored one {now}: get() it again, or change it in a"
        " locked() block"
    )


def _require_process(process: int, lease: Lease) -> None:
    if os.getpid() != process:
        raise LockLostError(
            f"the lock of conversation {lease.conversation_id!r} is held by the process that this"
            " one was forked from, and nothing was written: what the parent saves counts"
        )
