"""A capability of Pydantic AI's agents that records their runs until they are saved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.conversation_store import ConversationEntry
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, SkipToolExecution
from pydantic_ai.messages import ModelMessage, RetryPromptPart, ToolCallPart, ToolReturnPart

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine.adapters._calls import finished
from jazzmine.adapters._recorder import RunRecorder, parsed_json, remember, unrecorded

T = TypeVar("T")


class JazzmineRecorder(AbstractCapability[Any]):
    """Records the runs of an agent, with their calls of models and tools, and their errors.

    Made by `JazzmineConversationStore.recorder`, and given to an agent in `capabilities`. The trace
    is stored when the run's result is saved, in the same step.
    """

    def __init__(self, store: AsyncMessageStore, agent_id: str, user_id: str | None) -> None:
        self._store, self._agent_id, self._user_id = store, agent_id, user_id
        # Those that are not saved yet, by their ids.
        self._runs: dict[str, RunRecorder] = {}

    async def wrap_run(self, ctx: Any, *, handler: Callable[[], Awaitable[Any]]) -> Any:
        """Record a run."""
        # Its user is known when it is saved.
        name = str(ctx.conversation_id)
        run = RunRecorder(self._store, name, self._user_id or "", self._agent_id)
        remember(self._runs, str(ctx.run_id), run)
        prompt, completion = ctx.usage.input_tokens, ctx.usage.output_tokens
        failure: BaseException | None = None
        try:
            return await handler()
        except BaseException as error:
            failure = error
            raise
        finally:
            # With the agents that it has called.
            prompt = ctx.usage.input_tokens - prompt
            completion = ctx.usage.output_tokens - completion
            run.note_total({"prompt_tokens": prompt, "completion_tokens": completion})
            if failure is None:
                run.settle()
            else:
                self._runs.pop(str(ctx.run_id), None)
                await finished(self._fail(run, failure))

    async def wrap_model_request(
        self, ctx: Any, *, request_context: Any, handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Record a call of a model."""
        run, key, model = self._run_of(ctx), object(), request_context.model
        if str(ctx.run_id) in self._runs:
            await _note_answers(run, request_context.messages)
        run.begin_model_call(key, model.model_name, model.system)
        try:
            response = await handler(request_context)
        except BaseException as error:
            run.end_model_call(key, error=error)
            raise
        used = response.usage
        usage = {
            "prompt_tokens": used.input_tokens,
            "completion_tokens": used.output_tokens,
            "cached_prompt_tokens": used.cache_read_tokens,
            "cache_write_tokens": used.cache_write_tokens,
            "reasoning_tokens": used.details.get("reasoning_tokens"),
        }
        run.end_model_call(key, usage, model=response.model_name)
        for part in response.parts:
            if isinstance(part, ToolCallPart):
                run.ask_tool_call(part.tool_call_id, part.tool_name, parsed_json(part.args))
        return response

    async def wrap_tool_execute(
        self,
        ctx: Any,
        *,
        call: Any,
        tool_def: Any,
        args: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Record a call of a tool; one that is deferred is not called yet."""
        run, key = self._run_of(ctx), object()
        run.begin_tool_call(key, call.tool_name, args, call.tool_call_id)
        try:
            result = await handler(args)
        except (ApprovalRequired, CallDeferred, SkipToolExecution):
            run.forget_tool_call(key)
            raise
        except BaseException as error:
            run.end_tool_call(key, error=error)
            raise
        run.end_tool_call(key, result)
        return result

    async def _fail(self, run: RunRecorder, error: BaseException, scope: str | None = None) -> None:
        """Store the trace of a run that failed, as its conversation's user's, if that is known."""
        conversation = await self._store.get_conversation_by_id(run.conversation_id)
        run.user_id = scope or run.user_id if conversation is None else conversation.user_id
        if run.user_id and (scope or run.user_id) == run.user_id:
            await run.finish(error)

    def _run_of(self, context: Any) -> RunRecorder:
        return self._runs.get(str(context.run_id)) or unrecorded()

    async def refuse(
        self, messages: Sequence[ModelMessage], scope: str | None, error: BaseException
    ) -> None:
        """Store the traces of runs whose messages are not saved; they may be saved later."""
        for name in {message.run_id or "" for message in messages} & self._runs.keys():
            await self._fail(self._runs[name], error, scope)

    def runs_of(
        self, entries: Sequence[ConversationEntry], messages: Sequence[T], user_id: str
    ) -> list[tuple[RunRecorder, list[T]]]:
        """Return the runs of a user that entries are of, each with its messages, in their order."""
        by_run: dict[str, list[T]] = {}
        for entry, message in zip(entries, messages, strict=True):
            by_run.setdefault(entry.message.run_id or "", []).append(message)
        found = [(self._runs[name], by_run[name]) for name in by_run if name in self._runs]
        for run, _ in found:
            run.user_id = user_id
        return found

    def forget(self, entries: Sequence[ConversationEntry]) -> None:
        """Forget the runs whose entries were saved."""
        for entry in entries:
            self._runs.pop(entry.message.run_id or "", None)


async def _note_answers(run: RunRecorder, messages: Sequence[Any]) -> None:
    """Note what a model is given for calls of tools that did not run, or ran elsewhere."""
    calls = {
        part.tool_call_id: parsed_json(part.args)
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
    for part in messages[-1].parts if messages else ():
        if isinstance(part, ToolReturnPart | RetryPromptPart) and part.tool_name:
            call_id = part.tool_call_id
            if not await run.is_known(call_id):  # An earlier run has asked for it.
                run.ask_tool_call(call_id, part.tool_name, calls.get(call_id))
            failed = getattr(part, "outcome", "failed") != "success"
            run.answer_tool_call(call_id, part.content, is_error=failed)
