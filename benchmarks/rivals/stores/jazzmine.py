"""jazzmine's own stores, with the async API."""

from __future__ import annotations

from typing import Any

from benchmarks.rivals.store import EVERYTHING, Said, Store


class Jazzmine(Store):
    """Appends a turn in one call, as the guide "A turn in an agent's code" does."""

    imports = "from jazzmine.core.message_store import Message, MessageStore"

    async def open(self, place: str) -> None:
        from jazzmine.core.message_store import MessageStore

        self._store = await MessageStore.initialize(place)

    async def create(self, session: str, user: str, title: str) -> None:
        from jazzmine.core.message_store import Conversation

        conversation = Conversation(id=session, user_id=user, agent_id="desk", title=title)
        await self._store.get_or_create_conversation(conversation)

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        from jazzmine.core.message_store import Message, MessageRole

        await self._store.append_messages(
            session,
            [
                Message(
                    id=message["id"],
                    conversation_id=session,
                    user_id=user,
                    role=MessageRole(message["role"]),
                    original_content=message["text"],
                    metadata=_metadata(message),
                )
                for message in messages
            ],
        )

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        if count == EVERYTHING:
            stored = await self._store.get_messages_by_conversation_id(session)
        else:
            stored = await self._store.get_immediate_context(session, count)
        return [
            {
                "id": message.id,
                "role": message.role.value,
                "text": message.original_content,
                "call": message.metadata.get("tool_call_id")
                or message.metadata.get("tool_calls", [{"id": ""}])[0]["id"],
            }
            for message in stored
        ]

    async def erase(self, user: str, sessions: list[str]) -> None:
        await self._store.erase_user(user)

    async def close(self) -> None:
        await self._store.close()


def _metadata(message: Said) -> dict[str, Any]:
    """Return how the guides name a call, and the result that belongs to it."""
    if not message["call"]:
        return {}
    if message["role"] == "tool":
        return {"tool_call_id": message["call"]}
    return {"tool_calls": [{"id": message["call"]}]}
