"""The runs in a transcript of the Claude Agent SDK: its entries say what each call used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine.adapters._encoding import readable
from jazzmine.adapters._items import text_of
from jazzmine.adapters._recorder import RunRecorder
from jazzmine.records.messages import Message
from jazzmine.records.recorded_calls import ModelCall, ToolCall
from jazzmine.records.traces import TurnTrace
from jazzmine.records.turn_recorder import TurnRecorder


class Run(RunRecorder):
    """A run whose calls are read from the entries of a transcript; adding one again is allowed."""

    def __init__(
        self, store: AsyncMessageStore, conversation_id: str, user_id: str, agent_id: str
    ) -> None:
        super().__init__(store, conversation_id, user_id, agent_id)
        self._id = str(uuid4())
        # Those that may not be stored yet, and all, by the ids of their messages.
        self._new: set[str] = set()
        self._entries: dict[str, Any] = {}

    @property
    def has_calls(self) -> bool:
        """Whether a model was called."""
        return any(entry.get("type") == "assistant" for entry in self._entries.values())

    def has(self, message: Message) -> bool:
        """Return whether an entry was added."""
        return message.id in self._entries

    def add(self, message: Message, entry: Any) -> None:
        """Add an entry of the transcript; one that a fork has copied was counted in its source."""
        counts = isinstance(entry.get("message"), dict) and _ms(entry.get("timestamp")) is not None
        # The SDK's functions name the source in the one way, and its program in the other.
        is_copy = entry.get("forkedFrom") or entry.get("requestSessionId")
        if counts and not is_copy and message.id not in self._entries:
            self._new.add(message.id)
            self._entries[message.id] = entry
            self.note_said([message])

    def leave_out(self, stored: Iterable[str] = ()) -> None:
        """Leave out those of the new entries that another call had stored, and counted, before."""
        for message_id in self._new.intersection(stored):
            del self._entries[message_id]
        self._new.clear()

    def measured(self, message_id: str) -> TurnTrace:
        """Return the trace of the entries until now; tools that have not answered are left out."""
        turn = TurnRecorder(
            conversation_id=self.conversation_id, user_id=self.user_id, agent_id=self._agent_id
        )
        models: dict[str, ModelCall] = {}
        tools: dict[str, ToolCall] = {}
        times: list[int] = []
        for entry in self._entries.values():
            message, at = entry["message"], _ms(entry["timestamp"]) or 0
            if entry.get("type") == "assistant":
                # An answer has an entry for each of its blocks, with the message's id.
                call_id = str(message.get("id") or entry.get("uuid"))
                if call_id not in models:
                    model = turn.model_call(str(message.get("model")), provider="anthropic")
                    model.begin()
                    model.record.call_id = readable(call_id)
                    model.record.timestamp_ms = times[-1] if times else at
                    models[call_id] = model
                model = models[call_id]
                model.usage(**_usage(message))
                failed = entry.get("isApiErrorMessage")
                model.end(text_of(message.get("content")) if failed else None)
                model.record.latency_ms = max(at - model.record.timestamp_ms, 0)
            for block in blocks_of(message):
                tool = tools.get(str(block.get("id") or block.get("tool_use_id")))
                if block.get("type") == "tool_use" and tool is None:
                    name, call_id = str(block.get("name")), str(block.get("id"))
                    tools[call_id] = tool = turn.tool_call(
                        name, block.get("input"), call_id=call_id
                    )
                    tool.begin()
                    tool.record.started_at_ms = at
                elif block.get("type") == "tool_result" and tool is not None:
                    tool.result(block.get("content"))
                    tool.end(text_of(block.get("content")) if block.get("is_error") else None)
                    tool.record.total_latency_ms = max(at - (tool.record.started_at_ms or at), 0)
            times.append(at)
        begun, ended = min(times), max(times)
        changes = {"id": self._id, "started_at_ms": begun, "ended_at_ms": ended}
        return turn.trace_of(message_id).model_copy(
            update={**changes, "total_latency_ms": ended - begun}
        )


def _usage(message: Mapping[str, Any]) -> dict[str, Any]:
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return {}
    read = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    return {
        "prompt_tokens": (usage.get("input_tokens") or 0) + read + written,
        "completion_tokens": usage.get("output_tokens"),
        "cached_prompt_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": (usage.get("output_tokens_details") or {}).get("thinking_tokens"),
    }


def blocks_of(message: Mapping[str, Any]) -> list[Any]:
    """Return the blocks of a message's content; a text has none."""
    content = message.get("content")
    return (
        [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    )


def is_prompt(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is what the user says, not a tool's result or a program's note."""
    message = entry.get("message")
    if entry.get("type") != "user" or not isinstance(message, dict) or entry.get("isMeta"):
        return False
    return not any(block.get("type") == "tool_result" for block in blocks_of(message))


def _ms(timestamp: object) -> int | None:
    if not isinstance(timestamp, str):
        return None
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return None
