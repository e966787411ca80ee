"""What stands in the messages of Pydantic AI's conversations: entries, and the newest state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)

from jazzmine.adapters._items import Described, call_text, item_message, item_of
from jazzmine.records.messages import Message, MessageRole

__all__ = [
    "State",
    "StoredEntry",
    "entries_of",
    "entry_messages",
    "has_state",
    "note_message",
    "state_of",
    "stored_entry",
    "tips_of",
    "used_entries",
]

_KEY = "pydantic_ai"

_RECORDS = TypeAdapter(
    list[ConversationRecord], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


class StoredEntry(NamedTuple):
    """An entry whose message is still JSON."""

    id: str
    conversation_id: str
    parent_id: str | None
    kind: Literal["message"]
    message: dict[str, Any]


@dataclass(frozen=True)
class State:
    """What a conversation has besides its entries; it stands in the newest message.

    Args:
        record: the framework's record, or None if it was deleted.
        forks: for each conversation that refers to entries of this one, the ids of these.
        sources: for each conversation with entries that this one refers to, the ids of these.
        released: whether nothing is used any more, and all messages are being deleted.
    """

    record: ConversationRecord | None = None
    forks: dict[str, list[str]] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)
    released: bool = False

    @property
    def revision(self) -> str | None:
        """The revision of the record, or None."""
        return None if self.record is None else self.record.revision


def entry_messages(
    entries: Sequence[ConversationEntry], state: State, **fields: Any
) -> list[Message]:
    """Return the messages that store entries, the last of them with a state.

    Args:
        entries: the entries, at least one.
        state: the state after them.
        fields: the conversation, the user and the timestamp of the messages.
    """
    dumped = ModelMessagesTypeAdapter.dump_python([entry.message for entry in entries], mode="json")
    payloads = [
        {"entry": {"parent_id": entry.parent_id, "kind": entry.kind, "message": message}}
        for entry, message in zip(entries, dumped, strict=True)
    ]
    payloads[-1]["state"] = _dumped(state)
    return [
        item_message(_KEY, payload, _described(entry.message), id=entry.id, **fields)
        for entry, payload in zip(entries, payloads, strict=True)
    ]


def note_message(text: str, state: State, **fields: Any) -> Message:
    """Return a message that stores a state alone; the text says to a person what has happened."""
    described = Described(MessageRole.SYSTEM, text)
    return item_message(_KEY, {"state": _dumped(state)}, described, **fields)


def stored_entry(message: Message) -> StoredEntry | None:
    """Return the entry that a message stores, or None if it stores none."""
    found = _payload(message).get("entry")
    return None if found is None else StoredEntry(message.id, message.conversation_id, **found)


def entries_of(stored: Sequence[StoredEntry]) -> list[ConversationEntry]:
    """Return the framework's form of entries."""
    contents = ModelMessagesTypeAdapter.validate_json(
        json.dumps([entry.message for entry in stored])
    )
    return [
        ConversationEntry(id=entry.id, parent_id=entry.parent_id, kind=entry.kind, message=content)
        for entry, content in zip(stored, contents, strict=True)
    ]


def tips_of(record: ConversationRecord | None) -> set[str]:
    """Return the ids of the newest entries of a record and of the branches that it has left."""
    if record is None:
        return set()
    return {entry_id for entry_id in (record.head_id, *record.branches) if entry_id is not None}


def used_entries(messages: Sequence[Message], state: State) -> dict[str, StoredEntry]:
    """Return the entries of a conversation that its record and its forks use, by their ids.

    Args:
        messages: all messages of the conversation.
        state: its state.
    """
    stored: dict[str | None, StoredEntry] = {
        entry.id: entry for entry in map(stored_entry, messages) if entry
    }
    used: dict[str, StoredEntry] = {}
    for tip in tips_of(state.record).union(*state.forks.values()):
        entry = stored.get(tip)
        while entry is not None and entry.id not in used:
            used[entry.id] = entry
            entry = stored.get(entry.parent_id)
    return used


def has_state(message: Message) -> bool:
    """Return whether a message stores a state."""
    return "state" in _payload(message)


def state_of(message: Message) -> State:
    """Return the state that a message stores."""
    found = _payload(message)["state"]
    record = found["record"]
    if record is not None:
        (record,) = _RECORDS.validate_json(json.dumps([record]))
    return State(**{**found, "record": record})


def _payload(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = item_of(message, _KEY, {})
    return found


def _dumped(state: State) -> dict[str, Any]:
    record = None if state.record is None else _RECORDS.dump_python([state.record], mode="json")[0]
    return {
        "record": record,
        "forks": state.forks,
        "sources": state.sources,
        "released": state.released,
    }


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
    if isinstance(part, TextPart | SystemPromptPart):
        return part.content
    if isinstance(part, BaseToolCallPart):
        return call_text(part.tool_name, part.args_as_json_str())
    if isinstance(part, BaseToolReturnPart):
        return part.model_response_str()
    if hasattr(part, "model_response"):
        return str(part.model_response())
    content = getattr(part, "content", None)
    if isinstance(part, UserPromptPart) and not isinstance(content, str):
        return "\n".join(
            content
            if isinstance(content, str)
            else f"[{getattr(content, 'kind', type(content).__name__)}]"
            for content in part.content
        )
    return content if isinstance(content, str) else f"[{part.part_kind}]"
