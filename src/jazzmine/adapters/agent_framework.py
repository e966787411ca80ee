"""Histories of Microsoft Agent Framework (`agent-framework-core`) in a message store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from jazzmine._async.message_store.base import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.base import MessageStore
from jazzmine.adapters._calls import Conversations, finished, require_session_id, retry_conflicts
from jazzmine.adapters._items import Described, item_message, item_of, role_of, text_of
from jazzmine.adapters._versions import supported
from jazzmine.errors import ConflictError, NotFoundError
from jazzmine.records import messages as records
from jazzmine.records.messages import MessageRole

with supported("agent-framework-core", "1.0.0", "2.0"):
    from agent_framework import HistoryProvider, Message

__all__ = ["JazzmineHistoryProvider"]

_KEY = "agent_framework"


class JazzmineHistoryProvider(HistoryProvider):
    """The histories of sessions; each is the conversation `SESSION/SOURCE`.

    Implements `agent_framework.HistoryProvider`. It keeps nothing in memory or in `session.state`,
    so any number of processes may use one session at once.

    Args:
        store: an open message store; with a sync one, calls run in worker threads.
        user_id: the user of new conversations and messages.
        agent_id: the agent of new conversations.
        source_id: the name of this provider; providers of different names have histories of
            their own.
        load_messages: whether an agent is given the history before a run.
        store_inputs: whether what the agent is asked is stored.
        store_context_messages: whether what other providers add is stored.
        store_context_from: of which providers, by their `source_id`; by default of all.
        store_outputs: whether what the agent answers is stored.
        skip_excluded: whether messages that a compaction has excluded are left out.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type.
    """

    DEFAULT_SOURCE_ID = "jazzmine"

    def __init__(
        self,
        store: AsyncMessageStore | MessageStore,
        *,
        user_id: str,
        agent_id: str,
        source_id: str = DEFAULT_SOURCE_ID,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
    ) -> None:
        super().__init__(
            require_session_id(source_id, "source_id"),
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self._conversations = Conversations(store, user_id, agent_id)
        self._store = self._conversations.store

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first; flagged ones are left out.

        Raises:
            ValueError: the session's id is missing.
        """
        stored = await self._store.get_messages_by_conversation_id(self._conversation(session_id))
        found = [_message(one) for one in stored if not one.is_flagged]
        if self.skip_excluded:
            return [one for one in found if not one.additional_properties.get("_excluded", False)]
        return found

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append the messages that are new, all of them or none.

        If the messages begin with what the session ends with, as when a client sends the whole
        transcript again, that is left out. A user's message without a `message_id` that repeats
        the newest one is new.

        Raises:
            ValueError: the session's id is missing.
            TypeError: a message cannot be stored; none is.
        """
        conversation_id = self._conversation(session_id)
        items = [message.to_dict() for message in messages]
        if items:
            await finished(retry_conflicts(partial(self._append, conversation_id, items)))

    async def _append(self, conversation_id: str, items: list[dict[str, Any]]) -> None:
        stored = await self._newest(conversation_id, len(items) + 1)
        known = [item for one in stored if (item := item_of(one, _KEY, None)) is not None]
        ids = {"conversation_id": conversation_id, "user_id": self._conversations.user_id}
        new = [item_message(_KEY, item, _described(item), **ids) for item in _unsaved(known, items)]
        last = stored[-1].id if stored else None
        await self._conversations.append(conversation_id, new, last)

    async def _newest(self, conversation_id: str, count: int) -> list[records.Message]:
        """Return messages up to the newest, at least a number of them; also flagged ones."""
        found = await self._store.get_immediate_context(conversation_id, count)
        first = found[0] if len(found) == count else None
        try:
            later = await self._store.get_messages_by_conversation_id(
                conversation_id, after=None if first is None else first.id
            )
        except NotFoundError as error:
            raise ConflictError(str(error)) from error
        return later if first is None else [first, *later]

    def _conversation(self, session_id: str | None) -> str:
        name = quote(require_session_id(session_id), safe="")
        return f"{name}/{quote(self.source_id, safe='')}"


def _unsaved(known: list[dict[str, Any]], given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages given that come after the known ones, which they may begin with."""
    old, new = list(map(_identity, known)), list(map(_identity, given))
    # The whole history may also come after other messages, such as those of a system.
    begins = range(len(new) - len(old) + 1) if old else range(0)
    begin = next((one for one in begins if new[one : one + len(old)] == old), None)
    if begin is not None and (begin or len(old) > 1 or not _may_recur(known[-1])):
        return given[begin + len(old) :]
    for size in range(min(len(old), len(new)), 0, -1):
        if old[-size:] == new[:size] and (size > 1 or not _may_recur(known[-1])):
            return given[size:]
    return given


def _identity(item: dict[str, Any]) -> object:
    message_id = item.get("message_id")
    return (item.get("role"), item.get("contents")) if message_id is None else str(message_id)


def _may_recur(item: dict[str, Any]) -> bool:
    return item.get("role") == "user" and item.get("message_id") is None


def _message(stored: records.Message) -> Message:
    """Return the message of a framework; one of no session becomes a message of its text."""
    item = item_of(stored, _KEY, None)
    if item is not None:
        return Message.from_dict(item)
    role = stored.role
    name = "assistant" if role is MessageRole.COLLEAGUE_ASSISTANT else role.value
    return Message(name, [stored.original_content])


def _described(item: dict[str, Any]) -> Described:
    contents: list[Any] = item.get("contents") or []
    tools = [str(one.get("name")) for one in contents if one.get("type") == "function_call"]
    return Described(role_of(item.get("role")) or MessageRole.ASSISTANT, text_of(contents), tools)
