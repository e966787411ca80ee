"""The blocks in which a `TurnRecorder` measures calls of models and tools."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextvars import ContextVar
from traceback import format_exception
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from uuid import uuid4

from jazzmine.records.messages import Message, MessageRole
from jazzmine.records.storable import storable_json, storable_text
from jazzmine.records.traces import LLMCallRecord, ToolTrace
from jazzmine.records.types import MAX_INT

CallRecord = TypeVar("CallRecord", LLMCallRecord, ToolTrace)


class _Call(Generic[CallRecord]):
    """The block of one call; an exception that leaves it is noted, and goes on."""

    def __init__(
        self,
        record: CallRecord,
        on_begin: Callable[[Any], None],
        on_end: Callable[[Any, list[str]], None],
    ) -> None:
        #: The record of the call; its other fields may be set.
        self.record: CallRecord = record
        self.has_begun: bool = False
        self.has_ended: bool = False
        self._on_begin, self._on_end = on_begin, on_end

    def error(self, error: BaseException | str) -> None:
        """Note that the call failed, if no exception leaves the block."""
        self.require_begun()
        self.record.success = False
        self.record.error = text_of(error)

    def begin(self) -> None:
        """Begin a call without a block; `end` has to follow.

        Raises:
            RuntimeError: it was begun before.
        """
        if self.has_begun:
            raise RuntimeError("a block records one call: make a new one for each call")
        self.has_begun = True
        self._on_begin(self)

    def end(self, error: BaseException | str | None = None) -> None:
        """End the call, with the error that ended it; earlier notes stay."""
        if self.has_ended:
            return
        noted = self.record.error
        try:
            if error is not None:
                self.error(error)
        finally:
            texts = [text for text in (noted, self.record.error) if text is not None]
            if noted is not None:
                self.record.error = noted
            self._on_end(self, list(dict.fromkeys(texts)))

    def require_begun(self) -> None:
        """Raise RuntimeError if the block was not entered."""
        if not self.has_begun:
            raise RuntimeError("a call is recorded in a block: `with recorder.…_call(…) as call:`")

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end(error)


class ModelCall(_Call[LLMCallRecord]):
    """The block of one call of a model."""

    def usage(
        self,
        *,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        total_tokens: int | None = None,
        cached_prompt_tokens: int | None = None,
        cache_write_tokens: int | None = None,
        reasoning_tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Note the usage of the call; None, or a value that is not a number, was not reported.

        A later call of this method replaces the reported values, and keeps the others. Without any
        tokens of its prompt, `UsageSummary` counts the call as unreported.

        Args:
            prompt_tokens: all tokens of the prompt, cached ones included.
            completion_tokens: all tokens of the answer, reasoning included.
            total_tokens: the sum of both by default.
            cached_prompt_tokens: the tokens of the prompt that were read from a cache.
            cache_write_tokens: the tokens of the prompt that were written to a cache.
            reasoning_tokens: the tokens of the answer that the model used to reason.
            cost_usd: the cost of the call, in US dollars, if it is known.
        """
        self.require_begun()
        record = self.record
        prompt, completion = _count(prompt_tokens), _count(completion_tokens)
        total = _count(total_tokens)
        if total is None and (prompt is not None or completion is not None):
            parts = (
                record.prompt_tokens if prompt is None else prompt,
                record.completion_tokens if completion is None else completion,
            )
            # A total that was reported alone stays if it is larger than the known part.
            total = min(sum(parts) if all(parts) else max(*parts, record.total_tokens), MAX_INT)
        reported = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": total,
            "cached_prompt_tokens": _count(cached_prompt_tokens),
            "cache_write_tokens": _count(cache_write_tokens),
            "reasoning_tokens": _count(reasoning_tokens),
            "cost_usd": _cost(cost_usd),
        }
        # They are valid, and the trace is validated as a whole.
        vars(record).update({name: one for name, one in reported.items() if one is not None})

    def output(self, value: Any) -> None:
        """Keep the answer of the model; any value, as JSON or else as text."""
        self.require_begun()
        self.record.output = storable_json(value)


class ToolCall(_Call[ToolTrace]):
    """The block of one call of a tool."""

    def __init__(
        self,
        record: ToolTrace,
        on_begin: Callable[[Any], None],
        on_end: Callable[[Any, list[str]], None],
    ) -> None:
        super().__init__(record, on_begin, on_end)
        self.ended_at_ms = 0
        self._message_id = str(uuid4())

    def error(self, error: BaseException | str) -> None:
        """Note that the call failed, if no exception leaves the block; keep its traceback."""
        super().error(error)
        if isinstance(error, BaseException):
            self.record.traceback = traceback_of(error)

    def result(self, value: Any) -> None:
        """Keep the result of the tool; the tool's message gets it, as text or as JSON.

        Args:
            value: any value; a value that JSON cannot hold becomes text, and a long one is cut.
        """
        self.require_begun()
        self.record.final_data = storable_json(value)

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

    def __enter__(self) -> ToolCall:
        self.begin()
        _open_tools.set((*_still_open(), self))
        return self

    def end(self, error: BaseException | str | None = None) -> None:
        """End the call, with the error that ended it; earlier notes stay."""
        super().end(error)
        _open_tools.set(_still_open())


# The open blocks of tools in this context, the innermost last. Tasks inherit them.
_open_tools: ContextVar[tuple[ToolCall, ...]] = ContextVar("jazzmine_open_tools", default=())


def open_tools() -> list[ToolCall]:
    """Return the calls of tools around the caller, the innermost first."""
    return [*reversed(_still_open())]


def _still_open() -> tuple[ToolCall, ...]:
    return tuple(call for call in _open_tools.get() if not call.has_ended)


def _count(value: Any) -> int | None:
    """Return a number of tokens, or None for another value."""
    try:
        number = None if isinstance(value, bool) else int(value)
    except Exception:
        return None
    return number if number is not None and 0 <= number <= MAX_INT else None


def _cost(value: Any) -> float | None:
    try:
        cost = None if isinstance(value, bool) else float(value)
    except Exception:
        return None
    return cost if cost is not None and math.isfinite(cost) else None


def _content_of(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return storable_text(json.dumps(value, ensure_ascii=False))


# The longest recorded chain of causes.
_MAX_CAUSES = 8


def text_of(error: object, causes: int = _MAX_CAUSES) -> str:
    """Return the class and the text of an error, with its causes and the members of its group.

    Of a cancellation only the class is recorded: its text names tasks by addresses and paths.
    """
    if not isinstance(error, BaseException):
        return storable_text(error)
    name, members = type(error).__qualname__, _members_of(error)
    if _is_cancellation(error):
        return name
    text = storable_text(error)
    line = f"{name}: {text}" if text else name
    if members:
        line += f" [{'; '.join(map(text_of, members))}]"
    if error.__cause__ is not None and causes:
        line = f"{storable_text(line)}, caused by {text_of(error.__cause__, causes - 1)}"
    return storable_text(line)


def traceback_of(error: BaseException) -> str | None:
    """Return where an error and its causes were raised, or None for a cancellation."""
    if _is_cancellation(error):
        return None
    return storable_text("".join(format_exception(error)))


def _members_of(error: BaseException) -> tuple[BaseException, ...]:
    members = getattr(error, "exceptions", ())
    return members if isinstance(members, tuple) else ()


def _is_cancellation(error: BaseException) -> bool:
    return not isinstance(error, Exception) and not _members_of(error)
