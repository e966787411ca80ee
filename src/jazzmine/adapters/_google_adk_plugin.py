"""The plugin of Google's ADK that records the runs of agents."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from jazzmine.adapters._calls import finished
from jazzmine.adapters._conversations import finish_when_dropped
from jazzmine.adapters._google_adk_events import conversation_id_of
from jazzmine.adapters._recorder import RunRecorder, remember, unrecorded

# The invocation that the code of a task belongs to.
_INVOCATION: ContextVar[str] = ContextVar("jazzmine_invocation", default="")


class JazzmineTracePlugin(BasePlugin):
    """Records runs, with their calls of models and tools, and their errors.

    Made by `JazzmineSessionService.recorder`, and given to any number of runners in `plugins`. An
    untitled conversation gets a title from the user's first message.
    """

    def __init__(self, store: Any) -> None:
        super().__init__("jazzmine")
        self._store = store
        self._runs: dict[str, RunRecorder] = {}
        # The runs of agents that are called as tools, by those which they belong to.
        self._outer: dict[str, str] = {}

    def run_of(self, conversation_id: str, invocation_id: str) -> RunRecorder | None:
        """Return the recorder of a run, if it is recorded now."""
        run = self._runs.get(invocation_id)
        return run if run is not None and run.conversation_id == conversation_id else None

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:
        """Note that a run begins."""
        self._begin(invocation_context)

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """Note that a run begins, or that one goes on without a message of the user."""
        self._begin(invocation_context)

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Store what is not stored yet."""
        await self._end(invocation_context, None)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """Store what is not stored yet, with the error."""
        await self._end(invocation_context, error)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Note that a model is called."""
        self._run_of(callback_context).begin_model_call(
            _model_key(callback_context), llm_request.model or "unknown"
        )

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Note what a model's call used; parts of a streamed answer are not its end."""
        if not llm_response.partial:
            self._run_of(callback_context).end_model_call(
                _model_key(callback_context),
                _counts(llm_response.usage_metadata),
                model=llm_response.model_version,
                error=llm_response.error_message or llm_response.error_code,
            )

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: Any, error: Exception
    ) -> None:
        """Note that a model's call failed."""
        self._run_of(callback_context).end_model_call(_model_key(callback_context), error=error)

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """Leave out the call of a model that a callback has answered in its place.

        Note what a live model has used, whose calls have no callbacks.
        """
        if event.partial:
            return
        run, key = self._run_of(event), (event.invocation_id, event.author, str(event.branch))
        run.forget_model_call(key)
        if event.usage_metadata and invocation_context.live_request_queue is not None:
            run.begin_model_call(key, event.model_version or "unknown")
            run.end_model_call(key, _counts(event.usage_metadata))

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> None:
        """Note that a tool is called."""
        call_id = tool_context.function_call_id or ""
        self._run_of(tool_context).begin_tool_call(call_id, tool.name, tool_args, call_id)

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> None:
        """Note what a tool returned; one that asks a person first is called again later."""
        run, call_id = self._run_of(tool_context), tool_context.function_call_id or ""
        if call_id in tool_context.actions.requested_tool_confirmations:
            run.forget_tool_call(call_id)
        else:
            failed = isinstance(result, dict) and result.keys() == {"error"}
            run.end_tool_call(call_id, result, error=str(result["error"]) if failed else None)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: Exception
    ) -> None:
        """Note that a tool's call failed."""
        self._run_of(tool_context).end_tool_call(tool_context.function_call_id or "", error=error)

    def _run_of(self, context: Any) -> RunRecorder:
        invocation_id = context.invocation_id
        return self._runs.get(self._outer.get(invocation_id, invocation_id)) or unrecorded()

    def _begin(self, context: Any) -> None:
        invocation_id, outer = context.invocation_id, _INVOCATION.get()
        if invocation_id in self._runs or invocation_id in self._outer:
            return
        if isinstance(context.session_service, InMemorySessionService):
            # An agent that is called as a tool has a session of its own, which is not stored.
            if outer in self._runs:
                remember(self._outer, invocation_id, outer)
            return
        session = context.session
        _INVOCATION.set(invocation_id)
        run = RunRecorder(
            self._store,
            conversation_id_of(session.app_name, session.user_id, session.id),
            session.user_id,
            session.app_name,
        )
        remember(self._runs, invocation_id, run)
        finish_when_dropped(run, context)

    async def _end(self, context: Any, error: Exception | None) -> None:
        self._outer.pop(context.invocation_id, None)
        run = self._runs.pop(context.invocation_id, None)
        if run is not None:
            await finished(run.finish(error))


def _model_key(context: Any) -> tuple[str, str, str]:
    # Agents that run in parallel have branches of their own.
    invocation = getattr(context, "_invocation_context", None)
    branch = str(getattr(invocation, "branch", ""))
    return context.invocation_id, context.agent_name, branch


def _counts(usage: Any) -> dict[str, int | None]:
    if usage is None:
        return {}
    return {
        "prompt_tokens": usage.prompt_token_count,
        "completion_tokens": (usage.candidates_token_count or 0)
        + (usage.thoughts_token_count or 0),
        "total_tokens": usage.total_token_count,
        "cached_prompt_tokens": usage.cached_content_token_count,
        "reasoning_tokens": usage.thoughts_token_count,
    }
