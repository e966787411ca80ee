"""The callbacks of LangChain that record the runs of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage

from jazzmine.adapters._recorder import RunRecorder, remember, unrecorded
from jazzmine.adapters._steps import Steps
from jazzmine.adapters.langgraph.configs import text_id

# A run whose stream nobody reads to its end never ends for its callbacks.
_MOST_KEPT = 10_000

# The run that has begun in a context.
_RUN: ContextVar[RunRecorder | None] = ContextVar("jazzmine_run", default=None)


class JazzmineRecorder(BaseCallbackHandler):
    """Records the runs of graphs, with their calls of models and tools, and their errors.

    Made by `JazzmineSaver.recorder`, and given to graphs or to single runs in `callbacks`. An
    untitled conversation gets a title from the user's first message.
    """

    def __init__(self, messages: Steps, agent_id: str) -> None:
        self._messages, self._agent_id = messages, agent_id
        # The runs by their own ids, and by those of their parts.
        self._by_id: dict[UUID, RunRecorder] = {}
        self._by_part: dict[UUID, RunRecorder] = {}

    def note_user(self, thread: str, user_id: str) -> None:
        """Note whose run is in this context: that of the thread which has begun first."""
        for run in self._runs_of(thread):
            if not run.user_id:
                run.user_id = user_id
                _RUN.set(run)
                return

    def run_of(self, thread: str, user_id: str) -> RunRecorder | None:
        """Return the recorder of this context's run of a thread, or else of the newest one."""
        runs, run = self._runs_of(thread), _RUN.get()
        if run not in runs:
            run = runs[-1] if runs else None
        if run is not None:
            run.user_id = run.user_id or user_id
        return run

    def _runs_of(self, thread: str) -> list[RunRecorder]:
        # A copy: runs may begin in several threads.
        return [run for run in list(self._by_id.values()) if run.conversation_id == thread]

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **given: Any) -> None:
        """Note that a run begins, or a part of one."""
        thread = (given.get("metadata") or {}).get("thread_id")
        if self._begin(run_id, given) is None and thread is not None:
            run = RunRecorder(self._messages.store, text_id(thread), "", self._agent_id)
            remember(self._by_part, run_id, run, _MOST_KEPT)
            remember(self._by_id, run_id, run, _MOST_KEPT)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **given: Any) -> None:
        """Store what is not stored yet of a run that ends."""
        self._end(run_id, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **given: Any) -> None:
        """Store what is not stored yet of a run that ends, with the error."""
        self._end(run_id, error)

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, **given: Any
    ) -> None:
        """Note that a model is called."""
        run = self._begin(run_id, given)
        if run is not None:
            known = given.get("metadata") or {}
            model = known.get("ls_model_name") or (serialized or {}).get("name") or "unknown"
            run.begin_model_call(run_id, str(model), str(known.get("ls_provider") or ""))

    def on_llm_start(self, serialized: Any, prompts: Any, **given: Any) -> None:
        """Do the same for a model that completes a text."""
        self.on_chat_model_start(serialized, prompts, **given)

    def on_llm_end(self, response: Any, *, run_id: UUID, **given: Any) -> None:
        """Note what a model's call used."""
        run = self._run_that_has(run_id)
        message = getattr(response.generations[0][0], "message", None)
        usage = _counts(getattr(message, "usage_metadata", None) or {})
        named = getattr(message, "response_metadata", {}).get("model_name")
        run.end_model_call(run_id, usage, model=named)
        for call in getattr(message, "tool_calls", None) or ():
            run.ask_tool_call(str(call.get("id") or ""), call["name"], call["args"])

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **given: Any) -> None:
        """Note that a model's call failed."""
        self._run_that_has(run_id).end_model_call(run_id, error=error)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **given: Any) -> None:
        """Note that a tool is called."""
        run = self._begin(run_id, given)
        if run is not None:
            name = str((serialized or {}).get("name") or given.get("name"))
            inputs = given.get("inputs")
            arguments = input_str if inputs is None else inputs
            run.begin_tool_call(run_id, name, arguments, str(given.get("tool_call_id") or ""))

    def on_tool_end(self, output: Any, *, run_id: UUID, **given: Any) -> None:
        """Note what a tool returned; in a command, what it tells the model."""
        update = getattr(output, "update", None)
        said = update.get("messages") if isinstance(update, dict) else None
        for message in said if isinstance(said, list) else ():
            output = message if isinstance(message, ToolMessage) else output
        is_message = isinstance(output, ToolMessage)
        result = output.content if is_message else output
        failed = str(result) if is_message and output.status == "error" else None
        self._run_that_has(run_id).end_tool_call(run_id, result, error=failed)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **given: Any) -> None:
        """Note that a tool's call failed; one that interrupts the graph is made again later."""
        from langgraph.errors import GraphBubbleUp  # the saver works without that package

        run = self._run_that_has(run_id)
        if isinstance(error, GraphBubbleUp):
            run.forget_tool_call(run_id)
        else:
            run.end_tool_call(run_id, error=error)

    def _run_that_has(self, run_id: UUID) -> RunRecorder:
        """Return the run that a part is in, which ends."""
        return self._by_part.pop(run_id, None) or unrecorded()

    def _begin(self, run_id: UUID, given: Mapping[str, Any]) -> RunRecorder | None:
        """Return the run of the part that another part is in, and keep it for that one, too."""
        parent_id = given.get("parent_run_id")
        run = None if parent_id is None else self._by_part.get(parent_id)
        if run is not None:
            remember(self._by_part, run_id, run, _MOST_KEPT)
        return run

    def _end(self, run_id: UUID, error: BaseException | None) -> None:
        self._by_part.pop(run_id, None)
        run = self._by_id.pop(run_id, None)
        # Without a user, no message can be stored.
        if run is not None and run.user_id:
            self._messages.plain(run.finish(error))


def _counts(usage: dict[str, Any]) -> dict[str, int | None]:
    given, made = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "total_tokens": usage.get("total_tokens"),
        "cached_prompt_tokens": given.get("cache_read"),
        "cache_write_tokens": given.get("cache_creation"),
        "reasoning_tokens": made.get("reasoning"),
    }
