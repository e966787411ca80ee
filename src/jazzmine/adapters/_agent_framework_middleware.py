"""Middleware of Microsoft Agent Framework that records the runs of agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from agent_framework import (
    AgentMiddleware,
    ChatMiddleware,
    FunctionMiddleware,
    MiddlewareTermination,
)

from jazzmine.adapters._calls import finished
from jazzmine.adapters._recorder import RunRecorder, parsed_json
from jazzmine.records.storable import storable_json

__all__ = ["recorded_run", "recorder"]

CallNext = Callable[[], Awaitable[None]]


class _Recording:
    """A run that is recorded, and the calls of tools that its model has asked for."""

    def __init__(self, run: RunRecorder) -> None:
        self.run = run
        self._asked: list[Any] = []

    def note_answer(self, key: object, response: Any) -> None:
        """Note the end of a model's call, and the calls of tools in its answer."""
        usage = _counts(response.usage_details or {})
        self.run.end_model_call(key, usage, model=getattr(response, "model", None))
        for content in _contents(response.messages):
            if content.type == "function_call":
                self._asked.append(content)
                self.run.ask_tool_call(content.call_id, content.name, _arguments(content))

    def note_given(self, messages: Any) -> None:
        """Note which calls a person has rejected, and which have an answer without having run."""
        for content in _contents(messages):
            if content.type == "function_result":
                self.run.answer_tool_call(content.call_id, content.result)
            elif content.type == "function_approval_response" and not content.approved:
                call = content.function_call
                self.run.ask_tool_call(call.call_id, call.name, _arguments(call))
                self.run.answer_tool_call(call.call_id, "a person has rejected the call")

    def call_id(self, name: str, arguments: object) -> str:
        """Return the id of the call that a tool is called for, of which it is not told."""
        calls = [content for content in self._asked if content.name == name]
        exact = [content for content in calls if parsed_json(content.arguments) == arguments]
        call = next(iter(exact or calls), None)
        if call is None:
            return ""
        self._asked = [content for content in self._asked if content is not call]
        return call.call_id or ""


# The run that the code of a task belongs to.
_RECORDING: ContextVar[_Recording | None] = ContextVar("jazzmine_recording", default=None)


def recorder(begin: Callable[[str], RunRecorder]) -> list[Any]:
    """Return middleware that records the runs of an agent."""
    return [_Runs(begin), _Models(), _Tools()]


def recorded_run(conversation_id: str) -> RunRecorder | None:
    """Return the run whose messages go to a conversation, if one is recorded."""
    recording = _RECORDING.get()
    if recording is None or recording.run.conversation_id != conversation_id:
        return None
    return recording.run


class _Runs(AgentMiddleware):
    def __init__(self, begin: Callable[[str], RunRecorder]) -> None:
        self._begin = begin

    async def process(self, context: Any, call_next: CallNext) -> None:
        """Record a run of an agent with a session."""
        if context.session is None:
            await call_next()
            return
        outer, run = _RECORDING.get(), self._begin(context.session.session_id)
        recording = _Recording(run)
        recording.note_given(context.messages)
        _RECORDING.set(recording)

        async def end_early() -> None:
            # A reader that leaves a stream leaves a call that does not end.
            if run.has_open_calls:
                await finished(run.finish())

        if context.stream:
            context.stream_cleanup_hooks.append(end_early)
        try:
            await call_next()
        except MiddlewareTermination:
            raise
        except BaseException as error:
            await finished(run.finish(error))
            raise
        finally:
            # A streamed run only begins here, and goes on in the task of its reader.
            if not context.stream:
                _RECORDING.set(outer)
        if not context.stream:
            await finished(run.finish())


class _Models(ChatMiddleware):
    async def process(self, context: Any, call_next: CallNext) -> None:
        """Record a call of a model."""
        recording, key = _RECORDING.get(), object()
        if recording is None:
            await call_next()
            return
        recording.note_given(context.messages)
        named = (context.options or {}).get("model")
        recording.run.begin_model_call(key, str(named or type(context.client).__name__))
        if context.stream:
            context.stream_result_hooks.append(_hook(recording, key))
        try:
            await call_next()
        except BaseException as error:
            recording.run.end_model_call(key, error=error)
            raise
        if not context.stream:
            recording.note_answer(key, context.result)


def _hook(recording: _Recording, key: object) -> Callable[[Any], Any]:
    def note(response: Any) -> Any:
        recording.note_answer(key, response)
        return response

    return note


class _Tools(FunctionMiddleware):
    async def process(self, context: Any, call_next: CallNext) -> None:
        """Record a call of a tool."""
        recording, key = _RECORDING.get(), object()
        if recording is None:
            await call_next()
            return
        name, arguments = context.function.name, storable_json(context.arguments)
        call_id = recording.call_id(name, arguments)
        recording.run.begin_tool_call(key, name, arguments, call_id)
        try:
            await call_next()
        except BaseException as error:
            recording.run.end_tool_call(key, error=error)
            raise
        recording.run.end_tool_call(key, _plain(context.result))


def _contents(messages: Any) -> list[Any]:
    return [content for message in messages or () for content in getattr(message, "contents", ())]


def _arguments(call: Any) -> Any:
    return parsed_json(call.arguments)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


def _counts(usage: Mapping[str, Any]) -> dict[str, int | None]:
    """Return counts by our names; older versions have those of parts under names of providers."""
    counts = {
        "prompt_tokens": usage.get("input_token_count"),
        "completion_tokens": usage.get("output_token_count"),
        "total_tokens": usage.get("total_token_count"),
    }
    for name, count in usage.items():
        if "reasoning" in name:
            counts["reasoning_tokens"] = count
        elif "cach" in name and ("creation" in name or "write" in name):
            counts["cache_write_tokens"] = count
        elif "cach" in name:
            counts["cached_prompt_tokens"] = count
    return counts
