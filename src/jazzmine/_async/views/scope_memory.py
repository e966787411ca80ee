"""One user's view of working memories: another user's is as if there were none.

The store's updates are shared, so that calls of different views still wait for each other. Each
change is decided on what is stored, and written only if that is stored still.
"""

from __future__ import annotations

from jazzmine._async.working_memory.backend import Stored
from jazzmine._async.working_memory.calls import Block, Change, Decide
from jazzmine._async.working_memory.updates import Updates
from jazzmine.records.seen import require_own, taken
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["ScopedUpdates"]


class ScopedUpdates(Updates):
    """Reads and changes the working memories of one user.

    Args:
        updates: those of the store.
        user_id: the user.
    """

    def __init__(self, updates: Updates, user_id: str) -> None:
        self._updates = updates
        self._user_id = user_id

    async def load(
        self, conversation_id: str, *, renew: bool = False, viewer: str | None = None
    ) -> Stored:
        """Return what is stored, or nothing if it is another user's."""
        stored = await self._updates.load(conversation_id, viewer=self._user_id)
        if renew and stored.marks:
            stored = await self._updates.load(conversation_id, renew=True)
        return self._seen(stored)

    async def change(
        self,
        conversation_id: str,
        decide: Decide,
        *,
        read: Stored | None = None,
        parse: bool = True,
    ) -> tuple[Stored, Change | None]:
        """Change a state of the user's, or store one where there is none.

        Raises:
            IntegrityError: one would be stored in place of another user's.
        """

        def limited(stored: Stored) -> Change | None:
            seen = self._seen(stored)
            change = decide(seen)
            if change is None:
                return None
            if change.memory is not None:
                require_own(self._user_id, change.memory.user_id)
            if not seen.marks and (stored.marks or stored.user_id):
                raise taken("working memory of conversation", conversation_id)
            return change

        if parse:
            # Before it waits for others: the calls on another user's are not waited for.
            read = self._updates.known(conversation_id)
            if read is None or not self._seen(read).marks:
                read = await self._updates.load(conversation_id, viewer=self._user_id)
                if read.user_id and not read.marks:
                    return Stored(), limited(read)
        stored, change = await self._updates.change(
            conversation_id, limited, read=read, parse=parse
        )
        return self._seen(stored), change

    def begin_block(self, conversation_id: str) -> Block:
        """Return a block, which has no lock yet."""
        return self._updates.begin_block(conversation_id)

    async def lock(self, block: Block) -> Stored:
        """Take the lock of a conversation of the user; another user's is not locked."""
        stored = await self._updates.load(block.conversation_id, viewer=self._user_id)
        if stored.marks:
            stored = await self._updates.lock(block)
        return self._seen(stored)

    async def renew(self, block: Block) -> bool:
        """Let the lock last longer, or take it again if it has expired; False if it is lost."""
        return await self._updates.renew(block)

    def known(self, conversation_id: str) -> Stored | None:
        """Return what was stored when it was read or written last, if that is remembered."""
        stored = self._updates.known(conversation_id)
        return None if stored is None else self._seen(stored)

    async def save_block(self, block: Block, memory: WorkingMemory) -> None:
        """Save the state of a block, which releases its lock, and let the next call go."""
        require_own(self._user_id, memory.user_id)
        await self._updates.save_block(block, memory)

    async def abandon_block(self, block: Block, error: BaseException | None = None) -> None:
        """Release the lock of a block that has not saved, and let the next call go."""
        await self._updates.abandon_block(block, error)

    def _seen(self, stored: Stored) -> Stored:
        return stored if stored.owner == self._user_id else Stored()
