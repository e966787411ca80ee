"""The memory service of Google's ADK: what was said in all sessions of a user."""

from __future__ import annotations

from datetime import UTC, datetime

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import as_async, finished
from jazzmine.adapters._conversations import Conversations
from jazzmine.adapters._google_adk_events import conversation_id_of, event_message, event_of
from jazzmine.adapters._google_adk_state import SESSION_KEY
from jazzmine.records.messages import FoundMessage, MessageRole

# How many messages with a query's words are looked through for memories.
_MOST_FOUND = 2_000


class JazzmineMemoryService(BaseMemoryService):
    """Finds what was said in the sessions of a user, by its words.

    Implements `google.adk.memory.BaseMemoryService`. The sessions of a `JazzmineSessionService` on
    the same store are found as they are, at once; those of another session service once they are
    added.

    Args:
        store: an open message store with a search index (the option `search`); with a sync
            one, calls run in worker threads.
        limit: how many memories a search returns at most.

    Raises:
        TypeError: `store` is of another type.
    """

    def __init__(self, store: AsyncMessageStore | MessageStore, *, limit: int = 20) -> None:
        self._given, self._limit = store, limit
        self._store: AsyncMessageStore = as_async(store)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return what the user and agents of the app have said with a query's words, best first.

        Raises:
            ConfigurationError: the store has no search index.
        """
        memories: list[MemoryEntry] = []
        limit = self._limit
        while True:
            found = await self._store.search_messages(
                query,
                user_id=user_id,
                agent_id=app_name,
                roles=[MessageRole.USER, MessageRole.ASSISTANT],
                limit=limit,
            )
            memories = [
                memory
                for hit in found
                if not hit.message.is_flagged and (memory := _memory(hit)) is not None
            ]
            # Calls of tools hold words, too, and are no memories.
            if len(memories) >= self._limit or len(found) < limit or limit >= _MOST_FOUND:
                return SearchMemoryResponse(memories=memories[: self._limit])
            limit *= 4

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the events of another service's session that are not stored yet."""
        place = (session.app_name, session.user_id, session.id)
        stored = await self._store.get_conversation_by_id(conversation_id_of(*place))
        if stored is not None and SESSION_KEY in stored.metadata:
            return  # It is found as it is.
        # No session has that id, so one of that name can be created, and got.
        conversation_id = f"{conversation_id_of(*place)}/memory"
        messages = [
            event_message(event, conversation_id, session.user_id)
            for event in session.events
            if not event.partial
        ]
        known = await self._store.get_messages_by_ids([message.id for message in messages])
        ids = {message.id for message in known}
        new = [message for message in messages if message.id not in ids]
        if new:
            conversations = Conversations(self._given, session.user_id, session.app_name)
            await finished(conversations.append(conversation_id, new))


def _memory(found: FoundMessage) -> MemoryEntry | None:
    event = event_of(found.message)
    if event is None or event.content is None or not any(p.text for p in event.content.parts or ()):
        return None
    moment = datetime.fromtimestamp(event.timestamp, UTC)
    return MemoryEntry(
        id=found.message.id,
        content=event.content,
        author=event.author,
        timestamp=moment.isoformat(),
    )
