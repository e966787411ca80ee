"""The working-memory store: its public methods, the same on every back end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from jazzmine._async.operation import operation
from jazzmine._async.working_memory.transitions import TransitionMethods, found
from jazzmine._async.working_memory.updates import Block, Decide
from jazzmine.deadline import Deadline, begin_call, call_deadline
from jazzmine.encryption.used_keys import SAMPLED, require_right_keys
from jazzmine.errors import IntegrityError, StaleWorkingMemoryError
from jazzmine.records.arguments import optional_id, require_id
from jazzmine.records.memory_base import ENDED, checked_copy, set_unvalidated, with_class
from jazzmine.records.memory_copy import deep_copy, partial_copy
from jazzmine.records.stored_memory import Data, Stored
from jazzmine.records.working_memory import WorkingMemory
from jazzmine.tracing import call_span


class WorkingMemoryStore(TransitionMethods):
    """What each conversation is in the middle of.

    One conversation's updates take effect one after another, different conversations never wait
    for each other. Each update is a method of `WorkingMemory` of the same name: it is applied to
    what is stored, saved if nobody else has saved meanwhile, and else applied again. The new
    state is returned, and belongs to the caller.

    Every method raises `TypeError` for an id or a record of another type, `ValidationError`
    for a value that the back ends cannot hold, `StoreClosedError` after `close()`,
    `StoreUnavailableError` when the server cannot be reached, `NewerFormatError` for a working
    memory that a newer version of this library wrote, and `DecryptionError` for one that no key of
    the store opens: it is left as it is until `delete` or `erase_user`. Those that update raise
    `NotFoundError` if the conversation has no working memory, `LockTimeoutError` if a `locked`
    block held its lock for longer than `lock_timeout`, and, in a strict store, `NotAppliedError`
    if the transition does not apply.

    Args:
        backend: where the working memories are stored.
        config: the options that all back ends have.
    """

    scope = "jazzmine.working_memory"

    @classmethod
    async def initialize(
        cls, config: Mapping[str, object] | str | os.PathLike[str] | None = None
    ) -> WorkingMemoryStore:
        """Open a store.

        Args:
            config: a mapping with `storage` ("memory" by default) and the options of that back
                end, a URL, or a path such as `Path("agent.db")`; None takes the URL in the
                environment variable JAZZMINE_WORKING_MEMORY, or else keeps everything in this
                process.

        Raises:
            ConfigurationError: the configuration has an unknown key or a wrong value.
            ImportError: the back end's driver is not installed.
            StoreUnavailableError: the server cannot be reached.
        """
        # Only a program that opens a store pays for this import.
        from jazzmine._async.factory import new_working_memory
        from jazzmine.config import working_memory_config

        store: WorkingMemoryStore = new_working_memory(working_memory_config(config))
        return await store._initialized()

    async def _opened(self) -> None:
        keyring = self.form.keyring
        if keyring is None:
            return
        states = {}
        for conversation_id in await self.backend.conversations(self._deadline(), limit=SAMPLED):
            states[conversation_id] = await self.backend.load(conversation_id, self._deadline())
        require_right_keys(
            keyring,
            states,
            lambda conversation_id: self.form.key_id(states[conversation_id]),
            lambda conversation_id: self.form.opened(conversation_id, states[conversation_id]),
        )

    async def _owner(self, conversation_id: str) -> str | None:
        """Return whose the stored working memory is, which is not decrypted; None for none."""
        stored = await self.backend.load(conversation_id, self._deadline())
        return stored.user_id if stored.mark else None

    # Whole working memories

    @operation("working_memories")
    async def get(self, conversation_id: str) -> WorkingMemory | None:
        """Return a conversation's working memory, or None; waits for no lock."""
        stored = await self._load(require_id("conversation_id", conversation_id))
        return deep_copy(stored.data) if isinstance(stored.data, WorkingMemory) else None

    @operation()
    async def get_or_create(
        self, conversation_id: str, user_id: str, agent_id: str
    ) -> WorkingMemory:
        """Return a conversation's working memory, a new one if it has none.

        Either way its time to live starts anew.

        Raises:
            IntegrityError: the conversation has another user's working memory.
        """
        new = self.memory_type(
            require_id("conversation_id", conversation_id),
            require_id("user_id", user_id),
            require_id("agent_id", agent_id),
            revision=1,
        )
        stored = await self._load(conversation_id, renew=True)
        if stored.data is None:
            memory, _ = await self._change(
                conversation_id, lambda now: new if now.data is None else now.data, read=stored
            )
            assert isinstance(memory, WorkingMemory)
        else:
            memory = found(conversation_id, stored)
        if memory.user_id != user_id:
            raise IntegrityError(
                f"the working memory of conversation {conversation_id!r} is another user's"
            )
        return deep_copy(memory)

    @operation()
    async def save(self, wm: WorkingMemory) -> WorkingMemory:
        """Save a working memory as it is, unless the stored one is not the one that was read.

        One that was never stored (its `revision` is 0) is saved only where nothing is stored;
        set it to 0 to bring one in from elsewhere, such as a backup. The one that is passed
        counts as read anew afterwards: its `revision` is the new one.

        Raises:
            StaleWorkingMemoryError: the stored one was saved, deleted or made anew since.
        """
        saved = with_class(checked_copy(wm, WorkingMemory, "wm"), self.memory_type)
        await self._save(saved)
        _count_as_read(wm, saved)
        return deep_copy(saved)

    @operation()
    async def restore(self, conversation_id: str, snapshot: WorkingMemory) -> WorkingMemory:
        """Go back to an earlier state of a conversation, as when the user takes something back.

        It replaces what this store has read or saved last for the conversation, or what is
        stored if it has not.

        Args:
            snapshot: an earlier state of this conversation, as any call returned it.

        Raises:
            ValueError: the snapshot is of another conversation.
            StaleWorkingMemoryError: it was saved or deleted since.
            NotFoundError: the conversation has no working memory.
        """
        require_id("conversation_id", conversation_id)
        restored = with_class(checked_copy(snapshot, WorkingMemory, "snapshot"), self.memory_type)
        if restored.conversation_id != conversation_id:
            raise ValueError(f"the snapshot is of conversation {restored.conversation_id!r}")
        known = self._known_state(conversation_id) or await self._load(conversation_id)
        _count_as_read(restored, found(conversation_id, known))
        await self._save(restored)
        return deep_copy(restored)

    async def _save(self, saved: WorkingMemory) -> None:
        saved.derive_statuses()
        read_mark = (saved.version_token or "?") if saved.revision else ""
        set_unvalidated(saved, revision=saved.revision + 1)

        def decide(stored: Stored) -> Data:
            if stored.mark != read_mark and (stored.data is not None or read_mark):
                raise StaleWorkingMemoryError(
                    f"the working memory of conversation {saved.conversation_id!r} was saved,"
                    f" deleted or made anew since it was read at revision {saved.revision - 1}:"
                    " get() it again, or change it by update()"
                )
            return saved

        await self._change(saved.conversation_id, decide)

    @operation("working_memories")
    async def delete(self, conversation_id: str) -> bool:
        """Delete a conversation's working memory, one that cannot be read, too; True if it had one.

        Where the first reply was lost, the repetition may find nothing left, and it is False.
        """
        known = self._known_state(require_id("conversation_id", conversation_id))
        _, was_deleted = await self._change(
            conversation_id, lambda stored: None, read=known, parse=False
        )
        return was_deleted

    @operation("working_memories")
    async def erase_user(self, user_id: str) -> int:
        """Delete all working memories of a user, one after another.

        Those that cannot be read are deleted as well. A `locked` block is waited for. A call that
        failed has deleted a part; repeated, it deletes the rest.

        Returns:
            How many were deleted.
        """
        owner = require_id("user_id", user_id)

        def decide(stored: Stored) -> Data:
            return None if stored.user_id == owner else stored.data

        erased = await self._change_all(owner, decide, parse=False)
        await self.backend.sweep(self._deadline(), owner)
        await self.backend.purge()
        return erased

    @operation("working_memories")
    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Make all working memories of a user another user's, one after another.

        Those that cannot be read stay as they are. A call that failed has moved a part; repeated,
        it moves the rest.

        Args:
            from_user_id: whose they are, such as a guest's id.
            to_user_id: whose they become.

        Returns:
            How many were moved.
        """
        owner = require_id("from_user_id", from_user_id)
        new_owner = require_id("to_user_id", to_user_id)

        def decide(stored: Stored) -> Data:
            if not isinstance(stored.data, WorkingMemory) or stored.data.user_id != owner:
                return stored.data
            moved = partial_copy(stored.data)
            set_unvalidated(moved, user_id=new_owner, revision=moved.revision + 1)
            return moved

        return 0 if owner == new_owner else await self._change_all(owner, decide)

    async def _change_all(self, user_id: str, decide: Decide, *, parse: bool = True) -> int:
        """Change the states of a user one by one, and return how many were changed."""
        changed = 0
        for conversation_id in await self.backend.conversations(self._deadline(), user_id):
            self.require_open()
            begin_call()
            _, is_changed = await self._change(conversation_id, decide, parse=parse)
            changed += is_changed
        return changed

    @operation("working_memories")
    async def active_count(self, *, user_id: str | None = None) -> int:
        """Return how many conversations have a working memory, of a user or of anybody."""
        if user_id is not None:
            require_id("user_id", user_id)
        return len(await self.backend.conversations(self._deadline(), user_id))

    # Blocks

    @asynccontextmanager
    async def locked(
        self, conversation_id: str, message_id: str | None = None
    ) -> AsyncIterator[WorkingMemory]:
        """Hold a conversation's lock for a block, and save once at its end.

        The block gets the working memory and calls its methods (`wm.collect_slot(...)`); the
        store's own methods for this conversation would wait for the block. After the block they
        raise `RuntimeError`, as does setting a field. Nothing is saved if the block raises. The end
        of a block whose lock has expired raises `LockLostError`, if another call has saved or
        locked since.

        Args:
            message_id: the message of the user that the block belongs to: a block of a message
                whose change was made before (it is in `applied_messages`) saves nothing.
        """
        with call_span(self, "locked", {"conversation_id": conversation_id}):
            self.require_open()
            block = Block(require_id("conversation_id", conversation_id))
            optional_id("message_id", message_id)
            try:
                before = found(conversation_id, await self._lock(block))
                memory = self._lent(before)
                try:
                    yield memory
                    changed = self._given_back(memory, before, message_id)
                finally:
                    vars(memory)[ENDED] = True
                self.require_open()  # the store may have been closed during the block
                if message_id not in before.applied_messages:
                    await self._save_block(block, changed)
                    _count_as_read(memory, changed)
            finally:
                try:
                    await self._end_block(block)
                except BaseException:  # Ctrl-C, perhaps before the next call was let go
                    self._calls.release(conversation_id, block)
                    raise

    def _deadline(self) -> Deadline:
        return call_deadline(self._config.timeout)

    async def _close(self) -> None:
        await self._background_tasks.close(timeout=1.0)
        await super()._close()


def _count_as_read(memory: WorkingMemory, stored: WorkingMemory) -> None:
    """Give a working memory what tells the stored one from all others, as if it had been read."""
    for name in ("revision", "created_at", "last_updated", "version_token"):
        set_unvalidated(memory, **{name: getattr(stored, name)})
