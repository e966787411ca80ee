"""One user's view of working memories: it asks the store about that user's alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from jazzmine._async.operation import composed
from jazzmine._async.view import ConversationView, for_user, id_taken
from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine._async.working_memory.transitions import no_working_memory
from jazzmine.records.arguments import require_id
from jazzmine.records.memory_base import checked_copy
from jazzmine.records.working_memory import WorkingMemory


class ScopedWorkingMemoryStore(ConversationView[WorkingMemoryStore], WorkingMemoryStore):
    """A working-memory store that sees and changes one user's working memories.

    Another user's has the same results as one that is not stored. The store is asked whose it is
    before the call.
    """

    async def _owner(self, conversation_id: str) -> str | None:
        return await self._store._owner(conversation_id)

    async def _require(self, conversation_id: str) -> None:
        if not await self._has(conversation_id):
            raise no_working_memory(conversation_id)

    async def _require_free(self, conversation_id: str) -> None:
        """Raise `IntegrityError` if the working memory of a conversation is another user's."""
        if await self._owner(conversation_id) not in (None, self._user_id):
            raise id_taken("working memory of conversation", conversation_id)

    # Whole working memories

    @composed
    async def get(self, conversation_id: str) -> WorkingMemory | None:
        """Return a conversation's working memory if it is the user's, or None."""
        return await self._store.get(conversation_id) if await self._has(conversation_id) else None

    @composed
    async def get_or_create(
        self, conversation_id: str, user_id: str, agent_id: str
    ) -> WorkingMemory:
        """Return the user's working memory of a conversation, a new one if there is none."""
        owner = self._own(require_id("user_id", user_id))
        await self._require_free(require_id("conversation_id", conversation_id))
        return await self._store.get_or_create(conversation_id, owner, agent_id)

    @composed
    async def save(self, wm: WorkingMemory) -> WorkingMemory:
        """Save a working memory of the user as it is."""
        checked = checked_copy(wm, WorkingMemory, "wm")
        self._own(checked.user_id)
        await self._require_free(checked.conversation_id)
        return await self._store.save(wm)

    @composed
    async def restore(self, conversation_id: str, snapshot: WorkingMemory) -> WorkingMemory:
        """Go back to an earlier state of a conversation of the user."""
        self._own(checked_copy(snapshot, WorkingMemory, "snapshot").user_id)
        await self._require(conversation_id)
        return await self._store.restore(conversation_id, snapshot)

    @composed
    async def delete(self, conversation_id: str) -> bool:
        """Delete a working memory of the user."""
        self._known.pop(require_id("conversation_id", conversation_id), None)
        is_own = await self._owner(conversation_id) == self._user_id
        return is_own and await self._store.delete(conversation_id)

    @composed
    async def erase_user(self, user_id: str) -> int:
        """Delete all working memories of the user."""
        self._known.clear()
        return await self._store.erase_user(self._own(require_id("user_id", user_id)))

    active_count = for_user(WorkingMemoryStore.active_count)

    # Several changes at once

    @composed
    async def update(
        self,
        conversation_id: str,
        transition: Callable[[WorkingMemory], bool | None],
        message_id: str | None = None,
    ) -> WorkingMemory:
        """Change a working memory of the user by a function, in one step."""

        def change(memory: WorkingMemory) -> bool | None:
            changed = transition(memory)
            self._own(memory.user_id)
            return changed

        await self._require(conversation_id)
        return await self._store.update(conversation_id, change, message_id)

    @asynccontextmanager
    async def locked(
        self, conversation_id: str, message_id: str | None = None
    ) -> AsyncIterator[WorkingMemory]:
        """Hold the lock of a working memory of the user for a block, and save once at its end."""
        self.require_open()
        await self._require(conversation_id)
        async with self._store.locked(conversation_id, message_id) as memory:
            yield memory
            self._own(memory.user_id)
            self.require_open()

    async def _update(
        self, conversation_id: str, transition: Callable[[WorkingMemory], bool]
    ) -> WorkingMemory:
        """Make a transition of a working memory of the user; all transitions end here."""
        await self._require(conversation_id)
        return await self._store._update(conversation_id, transition)
