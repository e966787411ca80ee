"""The blocks in which a `TurnRecorder` measures calls of models and tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from traceback import format_exception
from types import TracebackType
from typing import Any, Generic, TypeVar
from uuid import uuid4

from jazzmine.records.messages import Message, MessageRole
from jazzmine.records.traces import LLMCallRecord, ToolTrace

__all__ = ["ModelCall", "ToolCall", "text_of"]

CallRecord = TypeVar("CallRecord", LLMCallRecord, ToolTrace)
AnyCall = TypeVar("AnyCall", bound="_Call[Any]")


class _Call(Generic[CallRecord]):
    """A block that is one call; an exception that leaves it is noted, and goes on.

    Args:
        record: what is recorded of the call.
        begin: called with this object when the block begins.
        end: called with this object when the block ends.
    """

    def __init__(
        self, record: CallRecord, begin: Callable[[Any], None], end: Callable[[Any], None]
    ) -> None:
        #: The record of the call; its other fields may be set.
        self.record: CallRecord = record
        self.has_ended = False
        self._begin, self._end = begin, end

    def error(self, error: BaseException | str) -> None:
        """Note that the call failed, where no exception leaves the block."""
        self.record.success = False
        self.record.error = text_of(error)

    def __enter__(self: AnyCall) -> AnyCall:
        self._begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.error(error)
        self._end(self)


class ModelCall(_Call[LLMCallRecord]):
    """The block of one call of a model."""

    def usage(
        self,
        *,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        total_tokens: int | None = None,
        cached_prompt_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        cost_usd: float | None = None,
    ) -> None:
        """Note what the call used, in place of what was noted before.

        Args:
            prompt_tokens: all tokens of the prompt, those read from or written to a cache included.
            completion_tokens: all tokens of the answer, those of its reasoning included.
            total_tokens: the sum of both by default.
            cached_prompt_tokens: those of the prompt that were read from a cache.
            cache_write_tokens: those of the prompt that were written to a cache.
            reasoning_tokens: those of the answer that the model used to reason.
            cost_usd: what the call cost, in US dollars, if that is known.

        Raises:
            ValidationError: a value is not a number.
        """
        record = self.record
        record.prompt_tokens = prompt_tokens
        record.completion_tokens = completion_tokens
        # Of what the record has made of them: it takes "5" for 5.
        total = record.prompt_tokens + record.completion_tokens
        record.total_tokens = total if total_tokens is None else total_tokens
        record.cached_prompt_tokens = cached_prompt_tokens
        record.cache_write_tokens = cache_write_tokens
        record.reasoning_tokens = reasoning_tokens
        record.cost_usd = cost_usd

    def output(self, value: Any) -> None:
        """Keep what the model answered.

        Raises:
            ValidationError: it is not a JSON value.
        """
        self.record.output = value


class ToolCall(_Call[ToolTrace]):
    """The block of one call of a tool."""

    def __init__(
        self, record: ToolTrace, begin: Callable[[Any], None], end: Callable[[Any], None]
    ) -> None:
        super().__init__(record, begin, end)
        self.ended_at_ms = 0
        self._message_id = str(uuid4())

    def error(self, error: BaseException | str) -> None:
        """Note that the call failed, where no exception leaves the block; keep its traceback."""
        super().error(error)
        if isinstance(error, BaseException):
            self.record.traceback = _storable("".join(format_exception(error)))

    def result(self, value: Any) -> None:
        """Keep what the tool returned; the tool's message gets it, as text or as JSON.

        Raises:
            ValidationError: it is not a JSON value.
        """
        self.record.final_data = value

    def request(self) -> dict[str, Any]:
        """Return the call as the message that asks for it names it."""
        record = self.record
        return {"id": record.call_id, "name": record.tool_name, "arguments": record.arguments}

    def message(self, caller: Message) -> Message:
        """Return the message with the tool's answer, for the conversation of the caller."""
        record = self.record
        return Message(
            id=self._message_id,
            conversation_id=caller.conversation_id,
            user_id=caller.user_id,
            role=MessageRole.TOOL,
            original_content=record.error or _content_of(record.final_data),
            timestamp=self.ended_at_ms,
            invoked_tools=[record.tool_name],
            errors=None if record.error is None else [record.error],
            metadata={"tool_call_id": record.call_id, "tool_name": record.tool_name},
        )


def text_of(error: BaseException | str) -> str:
    """Return the name and the text of an error, without what cannot be stored."""
    if isinstance(error, BaseException):
        name, text = type(error).__qualname__, str(error)
        error = f"{name}: {text}" if text else name
    return _storable(error)


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _content_of(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
