"""Sessions of the OpenAI Agents SDK (`openai-agents`) in a message store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from jazzmine._async.message_store.base import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.base import MessageStore
from jazzmine.adapters._calls import (
    Conversations,
    finished,
    require_session_id,
    require_several,
)
from jazzmine.adapters._items import Described, call_text, item_message, item_of, role_of, text_of
from jazzmine.adapters._versions import supported
from jazzmine.records.messages import Message, MessageRole

with supported("openai-agents", "0.8.0", "1.0"):
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings

__all__ = ["JazzmineSession"]

_KEY = "openai_agents"
_NO_ITEM = object()


class JazzmineSession:
    """A session whose items are the messages of one conversation.

    Implements `agents.memory.Session`. The conversation is stored with the first items. It keeps
    nothing in memory but its settings, so any number of sessions, in any processes, may use one
    `session_id` at once.

    Args:
        store: an open message store; with a sync one, calls run in worker threads, and the
            session may be used from several event loops (`Runner.run_sync`).
        session_id: the id of the conversation.
        user_id: the user of the conversation, if it is not stored yet, and of its new messages.
        agent_id: the agent of the conversation, if it is not stored yet.
        session_settings: how many items `get_items` returns by default.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type, or `session_settings` has an unknown key.
    """

    def __init__(
        self,
        store: AsyncMessageStore | MessageStore,
        session_id: str,
        *,
        user_id: str,
        agent_id: str,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id: str = require_session_id(session_id)
        self.session_settings: SessionSettings | None = _settings(session_settings)
        self._conversations = Conversations(store, user_id, agent_id)
        self._store = self._conversations.store

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, oldest first; flagged messages are left out.

        Args:
            limit: how many; by default that of `session_settings`, which is all by default. The
                first of them may be the output of a tool whose call is left out. 0 or less is
                none.
        """
        if limit is None:
            limit = _settings(self.session_settings).limit
        if limit is None:
            stored = await self._store.get_messages_by_conversation_id(self.session_id)
            return [_item(message) for message in stored if not message.is_flagged]
        newest = await self._store.get_immediate_context(self.session_id, max(limit, 0))
        return [_item(message) for message in newest]

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Append items to the session, all of them or none.

        Raises:
            TypeError, ValueError: an item cannot be stored, or one is passed instead of a list;
                none is stored.
        """
        require_several(items, "items")
        ids = {"conversation_id": self.session_id, "user_id": self._conversations.user_id}
        messages = [item_message(_KEY, item, _described(item), **ids) for item in items]
        if messages:
            await finished(self._conversations.append(self.session_id, messages))

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the newest item and return it, or None; no two calls return the same one."""
        message = await finished(self._store.pop_message(self.session_id))
        return None if message is None else _item(message)

    async def clear_session(self) -> None:
        """Delete all items, with their traces; the conversation itself stays."""
        await finished(self._store.rewind_conversation(self.session_id, after=None))


def _settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    if isinstance(given, SessionSettings):
        return given
    if given is not None and not isinstance(given, dict):
        raise TypeError(
            f"session_settings must be SessionSettings or a dict, not {type(given).__name__}"
        )
    values = given or {}
    if unknown := values.keys() - {field.name for field in fields(SessionSettings)}:
        raise TypeError(f"session_settings has no {', '.join(sorted(map(repr, unknown)))}")
    return SessionSettings(**values)


def _item(message: Message) -> Any:
    """Return the item of a message; one that no session has stored becomes an item of its text."""
    item = item_of(message, _KEY, _NO_ITEM)
    if item is not _NO_ITEM:
        return item
    role = message.role.value if message.role.value in ("user", "system") else "assistant"
    return {"role": role, "content": message.original_content}


def _described(item: object) -> Described:
    if not isinstance(item, dict):
        return Described(MessageRole.ASSISTANT, text_of(item))
    role, kind = role_of(item.get("role")), str(item.get("type"))
    if role is not None:
        return Described(role, text_of(item.get("content")))
    if kind.endswith("_output"):
        return Described(MessageRole.TOOL, text_of(item.get("output")))
    if kind.endswith("_call"):
        tool = str(item.get("name") or kind.removesuffix("_call"))
        given = (item[key] for key in ("arguments", "input", "action") if item.get(key))
        return Described(MessageRole.ASSISTANT, call_text(tool, next(given, None)), [tool])
    parts = text_of(item.get("summary")) or text_of(item.get("content"))
    return Described(MessageRole.ASSISTANT, parts or f"[{kind}]")
