"""The runs in a transcript of the Claude Agent SDK: its entries say what each call used."""

from __future__ import annotations

from collections.abc import Container, Mapping
from datetime import datetime
from typing import Any

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine.adapters._encoding import readable
from jazzmine.adapters._items import text_of
from jazzmine.adapters._recorder import RunRecorder
from jazzmine.records.messages import Message
from jazzmine.records.storable import storable_json
from jazzmine.records.traces import LLMCallRecord, ToolTrace, TurnTrace

__all__ = ["Run", "blocks_of", "is_prompt"]


class Run(RunRecorder):
    """A run whose calls are read from the entries of a transcript; adding one again is allowed."""

    def __init__(
        self, store: AsyncMessageStore, conversation_id: str, user_id: str, agent_id: str
    ) -> None:
        super().__init__(store, conversation_id, user_id, agent_id)
        # Those that may not be stored yet, and all, by the ids of their messages.
        self._new: set[str] = set()
        self._entries: dict[str, Any] = {}
        self._calls: dict[str, LLMCallRecord] = {}
        self._tool_traces: dict[str, ToolTrace] = {}
        self._times: list[int] = []

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
        if counts and not entry.get("forkedFrom") and message.id not in self._entries:
            self._new.add(message.id)
            self._entries[message.id] = entry
            self.note_said([message])

    def leave_out(self, stored: Container[str] = ()) -> None:
        """Leave out those of the new entries that another call had stored, and counted, before."""
        for message_id in self._new:
            if message_id in stored:
                del self._entries[message_id]
        self._new.clear()

    def _fold(self, entry: Any) -> None:
        message, at = entry["message"], _ms(entry["timestamp"]) or 0
        if entry.get("type") == "assistant":
            self._add_answer(entry, message, at)
        for block in blocks_of(message):
            if block.get("type") == "tool_result":
                self._end_tool(block, at)
        self._times.append(at)

    def _add_answer(self, entry: Mapping[str, Any], message: dict[str, Any], at: int) -> None:
        # An answer has an entry for each of its blocks, with the message's id.
        call_id = str(message.get("id") or entry.get("uuid"))
        begun = self._times[-1] if self._times else at
        call = self._calls.setdefault(
            call_id,
            LLMCallRecord(
                call_id=readable(call_id),
                model=readable(str(message.get("model"))),
                provider="anthropic",
                purpose="agent_loop",
                timestamp_ms=begun,
            ),
        )
        call.latency_ms = max(at - call.timestamp_ms, 0)
        _note_usage(call, message.get("usage"))
        if entry.get("isApiErrorMessage"):
            call.success, call.error = False, readable(text_of(message.get("content")))
        for block in blocks_of(message):
            if block.get("type") == "tool_use":
                self._tool_traces.setdefault(
                    str(block.get("id")),
                    ToolTrace(
                        tool_name=readable(str(block.get("name"))),
                        call_id=readable(str(block.get("id"))),
                        arguments=storable_json(block.get("input")),
                        started_at_ms=at,
                    ),
                )

    def _end_tool(self, block: Mapping[str, Any], at: int) -> None:
        tool = self._tool_traces.get(str(block.get("tool_use_id")))
        if tool is None:
            return
        tool.total_latency_ms = max(at - (tool.started_at_ms or at), 0)
        tool.success = not block.get("is_error")
        tool.final_data = storable_json(block.get("content"))
        tool.error = None if tool.success else readable(text_of(block.get("content")))

    def measured(self, message_id: str) -> TurnTrace:
        """Return the trace of the entries until now."""
        self._calls, self._tool_traces, self._times = {}, {}, []
        for entry in self._entries.values():
            self._fold(entry)
        calls = [call.model_copy() for call in self._calls.values()]
        tools = [tool.model_copy() for tool in self._tool_traces.values()]
        failed = [(call.model, call.error) for call in calls] + [
            (tool.tool_name, tool.error) for tool in tools
        ]
        begun, ended = min(self._times), max(self._times)
        changes = {
            "started_at_ms": begun,
            "ended_at_ms": ended,
            "total_latency_ms": ended - begun,
            "total_prompt_tokens": sum(call.prompt_tokens for call in calls),
            "total_completion_tokens": sum(call.completion_tokens for call in calls),
            "total_tokens": sum(call.total_tokens for call in calls),
            "llm_calls": calls,
            "tool_traces": tools,
            "errors": [f"{name}: {error}" for name, error in failed if error is not None],
        }
        return super().measured(message_id).model_copy(update=changes)


def _note_usage(call: LLMCallRecord, usage: object) -> None:
    if not isinstance(usage, dict):
        return
    read = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    details = usage.get("output_tokens_details") or {}
    call.prompt_tokens = (usage.get("input_tokens") or 0) + read + written
    call.completion_tokens = usage.get("output_tokens") or 0
    call.total_tokens = call.prompt_tokens + call.completion_tokens
    call.cached_prompt_tokens, call.cache_write_tokens = read, written
    call.reasoning_tokens = details.get("thinking_tokens") or 0


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
        return int(datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return None
