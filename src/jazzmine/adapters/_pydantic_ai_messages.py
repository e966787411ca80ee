"""The contents of the messages of Pydantic AI's conversations: entries, and the newest record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid5

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    SystemPromptPart,
    UserPromptPart,
)
from pydantic_core import to_jsonable_python

from jazzmine.adapters._encoding import decoded, encoded
from jazzmine.adapters._items import Described, call_text, described, item_message, item_of, text_of
from jazzmine.records.messages import Message, MessageRole

_KEY = "pydantic_ai"
_IDS = UUID("6c7a5b5e-2a51-4f0c-8f57-0c1f8f0f7a55")

_RECORDS = TypeAdapter(ConversationRecord)


class Log:
    """The messages of a conversation, oldest first, and the entries among them.

    In a conversation that `fork_conversation` has copied, the messages have ids of their own, and
    entries name their parents by those of the source. An entry that was deleted or flagged is
    passed over: what it followed is followed by what followed it.

    Args:
        messages: all messages of a conversation, or its newest ones.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._places: dict[str | None, int] = {}
        self._entries: dict[int, dict[str, Any]] = {}
        for index, message in enumerate(messages):
            payload = _payload(message)
            if "message" in payload and not message.is_flagged:
                self._entries[index] = payload
                # Others name it as their parent under its key.
                self._places[payload["key"]] = self._places[message.id] = index

    def record(self) -> ConversationRecord | None:
        """Return the newest record, with the ids of this conversation's messages."""
        for index, message in reversed(list(enumerate(self._messages))):
            if "record" in _payload(message):
                record = record_of(message)
                if record is None:
                    return None
                head = self._at(record.head_id, index + 1, record)
                record.head_id = None if head is None else self._messages[head].id
                tips = [self._places[tip] for tip in record.branches if tip in self._places]
                record.branches = [self._messages[tip].id for tip in tips]
                return record
        return None

    def history(self, head_id: str, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to one, oldest first, or the last `limit` of them.

        Raises:
            KeyError: it is not stored.
        """
        line: list[int] = []
        place: int | None = self._places[head_id]
        while place is not None and (limit is None or len(line) <= limit):
            line.append(place)
            place = self._at(self._entries[place]["parent"], place)
        ids = [self._messages[place].id for place in line]
        parents = [*ids[1:], None]
        contents = ModelMessagesTypeAdapter.validate_python(
            [self._entries[place]["message"] for place in line[:limit]]
        )
        history = [
            ConversationEntry(id=name, parent_id=parent, message=content)
            for name, parent, content in zip(ids, parents, contents, strict=False)
        ]
        return history[::-1]

    def _at(
        self, key: str | None, before: int, record: ConversationRecord | None = None
    ) -> int | None:
        """Return the place of an entry; of one that is not there, that of the one before it."""
        if key is None:
            return None
        if key in self._places:
            return self._places[key]
        left = self._left(record or self.record())
        return max((i for i in self._entries if i < before and i not in left), default=None)

    def _left(self, record: ConversationRecord | None) -> set[int]:
        """Return the places of entries of the branches that a record has left."""
        left: set[int] = set()
        for tip in [] if record is None else record.branches:
            place = self._places.get(tip)
            while place is not None and place not in left:
                left.add(place)
                place = self._places.get(self._entries[place]["parent"])
        return left


def entry_messages(
    entries: Sequence[ConversationEntry], record: ConversationRecord, **fields: Any
) -> list[Message]:
    """Return the messages that store entries, each with the record that counts if it is the last.

    Raises:
        ValueError: what would be stored could not be loaded.
    """
    dumped = ModelMessagesTypeAdapter.dump_python([entry.message for entry in entries])
    payloads: list[dict[str, Any]] = [
        {"key": entry.id, "parent": entry.parent_id, "message": _plain(message)}
        for entry, message in zip(entries, dumped, strict=True)
    ]
    ModelMessagesTypeAdapter.validate_python([payload["message"] for payload in payloads])
    plain = _plain(_RECORDS.dump_python(record))
    for payload in payloads:
        payload["record"] = {**plain, "head_id": payload["key"]}
        if payload is not payloads[-1]:  # the call that waits is in the last one
            payload["record"]["deferred_tool_requests"] = None
    return [
        item_message(_KEY, payload, described(_described, entry.message), id=entry.id, **fields)
        for entry, payload in zip(entries, payloads, strict=True)
    ]


def note_message(text: str, record: ConversationRecord | None, **fields: Any) -> Message:
    """Return a flagged message that stores a record alone; its text says what has happened."""
    about = Described(MessageRole.SYSTEM, text)
    dumped = None if record is None else _plain(_RECORDS.dump_python(record))
    return item_message(_KEY, {"record": dumped}, about, is_flagged=True, **fields)


def copied(entries: Sequence[ConversationEntry], conversation_id: str) -> list[ConversationEntry]:
    """Return copies of entries for another conversation, each after the one before it."""
    ids = [str(uuid5(_IDS, f"{conversation_id}/{entry.id}")) for entry in entries]
    return [
        ConversationEntry(id=name, parent_id=parent, message=entry.message)
        for name, parent, entry in zip(ids, [None, *ids[:-1]], entries, strict=True)
    ]


def is_deleted(message: Message) -> bool:
    """Return whether a message says that the conversation is being deleted."""
    return _payload(message).get("record", message) is None


def record_of(message: Message) -> ConversationRecord | None:
    """Return the record that a message stores, of its conversation; None if it was deleted."""
    found = _payload(message).get("record")
    if found is None:
        return None
    record = _RECORDS.validate_python(found)
    record.conversation_id = message.conversation_id
    # `move_user` may have made it another user's.
    record.scope = message.user_id if record.scope else record.scope
    return record


def _payload(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = item_of(message, _KEY, {})
    return found


def _plain(value: object) -> Any:
    """Return a value that the codec keeps: what JSON has no form for becomes pydantic's."""
    return decoded(encoded(value, other=to_jsonable_python))


def _described(message: ModelMessage) -> Described:
    parts: Sequence[Any] = message.parts
    if isinstance(message, ModelResponse):
        role = MessageRole.ASSISTANT
    elif any(isinstance(part, UserPromptPart) for part in parts):
        role = MessageRole.USER
    elif any(isinstance(part, BaseToolReturnPart) for part in parts):
        role = MessageRole.TOOL
    else:
        role = MessageRole.SYSTEM
    if role is not MessageRole.SYSTEM:
        parts = [part for part in parts if not isinstance(part, SystemPromptPart)]
    tools = [part.tool_name for part in parts if isinstance(part, BaseToolCallPart)]
    return Described(role, "\n".join(text for part in parts if (text := _text(part))), tools)


def _text(part: Any) -> str:
    if isinstance(part, BaseToolCallPart):
        return call_text(part.tool_name, part.args)
    if isinstance(part, BaseToolReturnPart):
        return text_of(part.content)
    if hasattr(part, "model_response"):
        return str(part.model_response())
    content = getattr(part, "content", None)
    if isinstance(content, str):
        return content
    if isinstance(part, UserPromptPart):
        return "\n".join(
            item if isinstance(item, str) else f"[{getattr(item, 'kind', type(item).__name__)}]"
            for item in part.content
        )
    return f"[{part.part_kind}]"
