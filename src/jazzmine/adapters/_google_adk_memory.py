"""The memory service of Google's ADK: what was said in all sessions of a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import as_async, finished
from jazzmine.adapters._google_adk_events import conversation_id_of, event_message, event_of
from jazzmine.adapters._google_adk_state import SESSION_KEY
from jazzmine.records.messages import Conversation, FoundMessage, MessageRole

__all__ = ["JazzmineMemoryService"]

# The session of events that are added without one.
_NO_SESSION = "memory"

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
        self._store: AsyncMessageStore = as_async(store)
        self._limit = limit

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
        """Store the events of a session that are not stored yet."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store those of some events that are not stored yet.

        Args:
            app_name: the app.
            user_id: the user.
            events: partial ones are left out.
            session_id: their session.
            custom_metadata: is not used.
        """
        conversation_id = await self._conversation_of(app_name, user_id, session_id)
        messages = [
            event_message(event, conversation_id, user_id) for event in events if not event.partial
        ]
        ids = [message.id for message in messages]
        stored = {message.id for message in await self._store.get_messages_by_ids(ids)}
        new = [message for message in messages if message.id not in stored]
        if new:
            conversation = Conversation(
                id=conversation_id,
                user_id=user_id,
                agent_id=app_name,
                created_at=min(message.timestamp for message in new),
            )
            await finished(self._store.get_or_create_conversation(conversation))
            await finished(self._store.append_messages(conversation_id, new))

    async def _conversation_of(self, app_name: str, user_id: str, session_id: str | None) -> str:
        """Return the conversation of a session's events: that of the session, if it is stored."""
        conversation_id = conversation_id_of(app_name, user_id, session_id or _NO_SESSION)
        stored = await self._store.get_conversation_by_id(conversation_id)
        is_session = stored is not None and SESSION_KEY in stored.metadata
        # No session has that id, so it can be created, and got.
        return conversation_id if is_session else f"{conversation_id}/memory"


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
