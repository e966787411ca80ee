"""Sessions of the OpenAI Agents SDK (`openai-agents`) in a message store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import finished, require_session_id, require_several
from jazzmine.adapters._conversations import Conversations, newest_shown
from jazzmine.adapters._items import (
    Described,
    call_text,
    described,
    item_message,
    item_of,
    role_of,
    text_of,
)
from jazzmine.adapters._pairs import Part, whole
from jazzmine.adapters._recorder import RunRecorder
from jazzmine.adapters._versions import supported
from jazzmine.errors import ConflictError
from jazzmine.records.messages import Message, MessageRole

with supported("openai-agents", "0.23.1", "1.0"):
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

    from jazzmine.adapters._openai_agents_hooks import RUN, JazzmineRunHooks, note_item, part_of

__all__ = ["JazzmineRunHooks", "JazzmineSession"]

_KEY = "openai_agents"
_NO_ITEM = object()

# How many items an answer of a model has at most: reasoning, a text and calls.
_LONGEST_ANSWER = 20

# Among how many of the newest items the call is looked for that a person has rejected.
_ASKED_BEFORE = 50


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
        settings = {} if session_settings is None else session_settings
        self.session_settings: SessionSettings | None = coerce_session_settings(settings)
        self._conversations = Conversations(store, user_id, agent_id)
        self._store = self._conversations.store

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, oldest first; flagged messages are left out.

        A model refuses the output of a tool without its call, a call without its output, and
        reasoning without what followed it. So each is left out with the other, whatever took that;
        a call that nothing but calls and outputs follow stays, since it may still be answered.

        Args:
            limit: how many at most; by default that of `session_settings`, which is all by
                default. 0 or less is none.
        """
        limit = resolve_session_limit(limit, self.session_settings)
        if limit is None:
            stored = await self._store.get_messages_by_conversation_id(self.session_id)
            return _whole(stored)
        # One more, since reasoning that the limit cuts off takes along what follows it.
        count = max(limit, 0)
        newest = await newest_shown(self._store, self.session_id, count + 1)
        around = [part_of(_item(message))[0] for message in newest[:2]]
        if len(newest) > count and set(around) <= {"call", "said"}:
            # It may be before them, in the same answer of the model.
            newest = await newest_shown(self._store, self.session_id, count + _LONGEST_ANSWER)
        return _whole(newest, hidden=max(len(newest) - count, 0))

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Append items to the session, all of them or none.

        Raises:
            TypeError, ValueError: an item cannot be stored, or one is passed instead of a list;
                none is stored.
        """
        require_several(items, "items")
        messages = self._messages(items)
        if messages:
            run = RUN.get()
            # An agent may run another one, with a session of its own.
            is_mine = run is not None and run.conversation_id == self.session_id
            runs = [(run, messages)] if run is not None and is_mine else []
            for item in items if runs else ():
                await self._note_item(runs[0][0], item)
            await finished(self._conversations.append(self.session_id, messages, runs=runs))

    async def _note_item(self, run: RunRecorder, item: Any) -> None:
        kind, key = part_of(item)
        if kind == "call":
            # One that is stored before it has ended waits for a person, and is called again.
            run.forget_tool_call(key)
        if kind != "answer":
            return  # Calls are noted by the hooks: another agent may use this session as well.
        if not await run.is_known(key):
            # A person has answered what an earlier run has asked for.
            newest = await newest_shown(self._store, self.session_id, _ASKED_BEFORE)
            for message in takewhile(lambda message: message.id != run.first_id, newest):
                if part_of(_item(message)) == ("call", key):
                    note_item(run, _item(message))
        note_item(run, item)

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the newest item that is not flagged and return it, or None.

        No two calls return the same one. Its trace is deleted with it.
        """
        return await finished(self._pop())

    async def _pop(self) -> TResponseInputItem | None:
        while newest := await newest_shown(self._store, self.session_id, 1):
            if await self._store.delete_message(newest[0].id):
                return _item(newest[0])
        return None

    async def clear_session(self) -> None:
        """Delete all items, with their traces; the conversation itself stays.

        What the runs have used is not counted any more. A compaction keeps it (see the page).
        """
        await finished(self._store.rewind_conversation(self.session_id, after=None))

    # What `OpenAIResponsesCompactionSession` asks a session for. It keeps the originals, flagged,
    # with their traces.

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> Any:
        from agents.memory.session import _CompactionSnapshot  # not public: only where it is asked

        stored = await self._store.get_messages_by_conversation_id(self.session_id)
        visible = [message for message in stored if not message.is_flagged]
        shown = visible[-limit:]
        has_expired = prune_prefix or (lambda item: False)

        async def replace(start: int, items: list[TResponseInputItem]) -> bool:
            # Before the items that are replaced there may be some that have expired.
            before = visible[: len(visible) - len(shown) + start]
            expired = takewhile(lambda message: has_expired(_item(message)), before)
            # An append of nothing would not look for newer messages.
            note = Message(
                **self._ids,
                role=MessageRole.SYSTEM,
                original_content="[compacted]",
                is_flagged=True,
            )
            last = stored[-1].id if stored else None
            messages = self._messages(items) or [note]
            try:
                await self._conversations.append(self.session_id, messages, last)
            except ConflictError:
                return False
            for message in [*expired, *shown[start:]]:
                await self._store.flag_message(message.id)
            return True

        return _CompactionSnapshot(
            [_item(message) for message in shown],
            len(shown) == len(visible),
            lambda start, items: finished(replace(start, items)),
        )

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        snapshot = await self._get_compaction_snapshot(sys.maxsize)
        while not await snapshot.replace_suffix(0, items):
            snapshot = await self._get_compaction_snapshot(sys.maxsize)
        return True

    def _messages(self, items: Sequence[TResponseInputItem]) -> list[Message]:
        return [
            item_message(_KEY, item, described(_described, item), **self._ids) for item in items
        ]

    @property
    def _ids(self) -> dict[str, Any]:
        return {"conversation_id": self.session_id, "user_id": self._conversations.user_id}

    def recorder(self) -> JazzmineRunHooks:
        """Return hooks for one run, which store its trace beside its messages."""
        return JazzmineRunHooks(self._conversations, self.session_id)


def _whole(stored: Sequence[Message], *, hidden: int = 0) -> list[Any]:
    """Return the items of messages that are not flagged or hidden, without halves of pairs."""
    items = [_item(message) for message in stored]
    parts = [
        Part(*part_of(item), message.is_flagged or index < hidden)
        for index, (item, message) in enumerate(zip(items, stored, strict=True))
    ]
    return [item for item, stays in zip(items, whole(parts), strict=True) if stays]


def _item(message: Message) -> Any:
    """Return the item of a message; one that no session has stored becomes an item of its text."""
    item = item_of(message, _KEY, _NO_ITEM)
    if item is not _NO_ITEM:
        return item
    role = message.role.value if message.role.value in ("user", "system") else "assistant"
    return {"role": role, "content": message.original_content}


def _described(item: Any) -> Described:
    if not isinstance(item, dict):
        return Described(MessageRole.ASSISTANT, text_of(item))
    role, kind = role_of(item.get("role")), str(item.get("type"))
    if role is not None:
        return Described(role, text_of(item.get("content")))
    if "__enc__" in item:  # an item of the SDK's `EncryptedSession`
        return Described(MessageRole.ASSISTANT, "[encrypted]")
    if kind.endswith("_output"):
        return Described(MessageRole.TOOL, text_of(item.get("output")))
    if kind.endswith("_call"):
        tool = str(item.get("name") or kind.removesuffix("_call"))
        given = (item[key] for key in ("arguments", "input", "action") if item.get(key))
        return Described(MessageRole.ASSISTANT, call_text(tool, next(given, None)), [tool])
    parts = text_of(item.get("summary")) or text_of(item.get("content"))
    return Described(MessageRole.ASSISTANT, parts or f"[{kind}]")
