"""Histories of Microsoft Agent Framework (`agent-framework-core`) in a message store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import finished, require_session_id, retry_conflicts
from jazzmine.adapters._conversations import Conversations
from jazzmine.adapters._items import Described, described, item_message, item_of, role_of, text_of
from jazzmine.adapters._pairs import Part, whole
from jazzmine.adapters._versions import supported
from jazzmine.records import messages as records
from jazzmine.records.messages import MessageRole

with supported("agent-framework-core", "1.21.0", "2.0"):
    from agent_framework import (
        DEFAULT_TOOL_APPROVAL_SOURCE_ID,
        HistoryProvider,
        InMemoryHistoryProvider,
        Message,
    )

    from jazzmine.adapters._agent_framework_middleware import recorded_run, recorder

__all__ = ["JazzmineHistoryProvider"]

_KEY = "agent_framework"

_KINDS = {"function_call": "call", "function_result": "answer", "text_reasoning": "reasoning"}


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
        skip_excluded: whether messages that a compaction has excluded are left out.
        options: the other arguments of the framework's `HistoryProvider`, such as `load_messages`
            and `store_inputs`.

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
        skip_excluded: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(require_session_id(source_id, "source_id"), **options)
        self.skip_excluded = skip_excluded
        # Decides which messages are new, and which are shown.
        self._rules = InMemoryHistoryProvider(skip_excluded=skip_excluded)
        self._conversations = Conversations(store, user_id, agent_id)
        self._store = self._conversations.store

    async def before_run(
        self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]
    ) -> None:
        """Give a run the history, without calls of tools that nothing answers, and the reverse.

        A process that is killed in a tool leaves such a call, and a model refuses it. It stays
        stored. A call that waits for a person's approval is left to the framework.
        """
        await super().before_run(agent=agent, session=session, context=context, state=state)
        history = context.context_messages[self.source_id]
        answered = set().union(*map(_calls, context.input_messages))
        if session.state.get(DEFAULT_TOOL_APPROVAL_SOURCE_ID):
            # With an answer to one of the calls that waited, the run makes the others beside it.
            for asked in map(_calls, history):
                answered |= asked if asked & answered else set()
        context.context_messages[self.source_id] = _whole(history, answered)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first; flagged ones are left out.

        Raises:
            ValueError: the session's id is missing.
        """
        stored = await self._store.get_messages_by_conversation_id(self._conversation(session_id))
        found = [_message(message) for message in stored if not message.is_flagged]
        return await self._rules.get_messages(None, state={"messages": found})

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
        transcript again, that is left out, as the framework's own providers do it.

        Raises:
            ValueError: the session's id is missing.
            TypeError: a message cannot be stored; none is.
        """
        conversation_id = self._conversation(session_id)
        if messages:
            await finished(retry_conflicts(partial(self._append, conversation_id, messages)))

    def recorder(self) -> list[Any]:
        """Return middleware for an agent, which stores the traces of its runs with this history.

        A trace is stored with the messages of its run in one step. Of a run that fails the
        framework stores no messages; its trace belongs to a flagged message, which no agent sees.
        An untitled conversation gets a title from the user's first message.
        """
        return recorder(lambda name: self._conversations.recorder(self._conversation(name)))

    async def _append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        stored = await self._store.get_messages_by_conversation_id(
            conversation_id, order="newest", limit=len(messages) + 1
        )
        known = [_message(message) for message in reversed(stored) if _KEY in message.metadata]
        state = {"messages": known}
        await self._rules.save_messages(None, messages, state=state)
        items = [message.to_dict() for message in state["messages"][len(known) :]]
        ids = {"conversation_id": conversation_id, "user_id": self._conversations.user_id}
        new = [item_message(_KEY, item, described(_described, item), **ids) for item in items]
        run = recorded_run(conversation_id)
        runs = [] if run is None else [(run, new)]
        last = stored[0].id if stored else None
        await self._conversations.append(conversation_id, new, last, runs)

    def _conversation(self, session_id: str | None) -> str:
        name = quote(require_session_id(session_id), safe="")
        return f"{name}/{quote(self.source_id, safe='')}"


def _whole(messages: list[Message], answered: set[str]) -> list[Message]:
    """Take halves of pairs out of copies of a history's messages, and return what is left.

    Args:
        messages: the copies.
        answered: the calls that are answered after the history.
    """
    parts: list[Part] = []
    for message in messages:
        other = "said" if message.role == "assistant" else "other"
        for content in message.contents:
            kind: Any = _KINDS.get(content.type, other)
            parts.append(Part(kind, str(content.call_id)))
        parts.append(Part("end"))
    later = [Part("answer", call) for call in answered] + [Part("other")]
    stays = iter(whole([*parts, *later]))
    kept = []
    for message in messages:
        message.contents = [content for content in message.contents if next(stays)]
        next(stays)
        kept += [message] if message.contents else []
    return kept


def _calls(message: Message) -> set[str]:
    """Return the ids of the calls that a message has, or the results or approvals of."""
    calls = (content.function_call or content for content in message.contents)
    return {str(call.call_id) for call in calls if call.call_id is not None}


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
    calls = [content for content in contents if content.get("type") == "function_call"]
    tools = [str(call.get("name")) for call in calls]
    return Described(role_of(item.get("role")) or MessageRole.ASSISTANT, text_of(contents), tools)
