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
from jazzmine.adapters._conversations import finish_when_dropped
from jazzmine.adapters._recorder import RunRecorder, parsed_json, unrecorded

__all__ = ["recorded_run", "recorder"]

CallNext = Callable[[], Awaitable[None]]


# The run that the code of a task belongs to.
_RUN: ContextVar[RunRecorder | None] = ContextVar("jazzmine_run", default=None)


def recorder(begin: Callable[[str], RunRecorder]) -> list[Any]:
    """Return middleware that records the runs of an agent."""
    return [_Runs(begin), _Models(), _Tools()]


def recorded_run(conversation_id: str) -> RunRecorder | None:
    """Return the run whose messages go to a conversation, if one is recorded."""
    run = _RUN.get()
    return run if run is not None and run.conversation_id == conversation_id else None


class _Runs(AgentMiddleware):
    def __init__(self, begin: Callable[[str], RunRecorder]) -> None:
        self._begin = begin

    async def process(self, context: Any, call_next: CallNext) -> None:
        """Record a run of an agent with a session."""
        if context.session is None:
            await call_next()
            return
        outer, run = _RUN.get(), self._begin(context.session.session_id)
        _note_given(run, context.messages)
        _RUN.set(run)

        async def end_early() -> None:
            # A reader that leaves a stream leaves a call that does not end.
            if run.has_open_calls:
                await finished(run.finish())

        async def end(response: Any) -> Any:
            # What its reader does next is not of this run.
            if _RUN.get() is run:
                _RUN.set(outer)
            await finished(run.finish())
            return response

        if context.stream:
            context.stream_cleanup_hooks.append(end_early)
            context.stream_result_hooks.append(end)
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
                _RUN.set(outer)
        if not context.stream:
            await finished(run.finish())
        elif context.result is not None:
            finish_when_dropped(run, context.result)


class _Models(ChatMiddleware):
    async def process(self, context: Any, call_next: CallNext) -> None:
        """Record a call of a model."""
        run, key = _RUN.get() or unrecorded(), object()
        _note_given(run, context.messages)
        named = (context.options or {}).get("model")
        run.begin_model_call(key, str(named or type(context.client).__name__))

        def note_answer(response: Any) -> Any:
            usage, model = _counts(response.usage_details or {}), getattr(response, "model", None)
            run.end_model_call(key, usage, model=model)
            for content in _contents(response.messages):
                if content.type == "function_call":
                    run.ask_tool_call(content.call_id, content.name, parsed_json(content.arguments))
            return response

        if context.stream:
            context.stream_result_hooks.append(note_answer)
        try:
            await call_next()
        except BaseException as error:
            run.end_model_call(key, error=error)
            raise
        if not context.stream:
            note_answer(context.result)


class _Tools(FunctionMiddleware):
    async def process(self, context: Any, call_next: CallNext) -> None:
        """Record a call of a tool."""
        run, key = _RUN.get() or unrecorded(), object()
        call_id = context.metadata.get("call_id") or ""
        run.begin_tool_call(key, context.function.name, context.arguments, call_id)
        try:
            await call_next()
        except BaseException as error:
            run.end_tool_call(key, error=error)
            raise
        run.end_tool_call(key, _plain(context.result))


def _note_given(run: RunRecorder, messages: Any) -> None:
    """Note which calls a person has rejected, and which have an answer without having run."""
    for content in _contents(messages):
        if content.type == "function_result":
            run.answer_tool_call(content.call_id, content.result)
        elif content.type == "function_approval_response" and not content.approved:
            call = content.function_call
            run.ask_tool_call(call.call_id, call.name, parsed_json(call.arguments))
            run.answer_tool_call(call.call_id, "a person has rejected the call")


def _contents(messages: Any) -> list[Any]:
    return [content for message in messages or () for content in getattr(message, "contents", ())]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


def _counts(usage: Mapping[str, Any]) -> dict[str, int | None]:
    return {
        "prompt_tokens": usage.get("input_token_count"),
        "completion_tokens": usage.get("output_token_count"),
        "total_tokens": usage.get("total_token_count"),
        "cached_prompt_tokens": usage.get("cache_read_input_token_count"),
        "cache_write_tokens": usage.get("cache_creation_input_token_count"),
        "reasoning_tokens": usage.get("reasoning_output_token_count"),
    }
