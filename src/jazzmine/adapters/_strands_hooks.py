"""Hooks of Strands Agents that record the runs of agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from strands.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    HookProvider,
    HookRegistry,
)

from jazzmine.adapters._calls import completed
from jazzmine.adapters._recorder import RunRecorder, unrecorded

# Agents with their runs, by the agents' identities.
Runs: TypeAlias = dict[int, tuple[Any, RunRecorder]]

_MODEL = "model"


class JazzmineHooks(HookProvider):
    """Records the runs of agents, with their calls of models and tools, and their errors.

    Made by `JazzmineSessionRepository.recorder`, and given to agents of a session in `hooks`. An
    untitled conversation gets a title from the user's first message.
    """

    def __init__(self, runs: Runs, begin: Callable[[str], RunRecorder]) -> None:
        self._runs, self._begin_run = runs, begin

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register the callbacks with an agent."""
        registry.add_callback(BeforeInvocationEvent, self._begin)
        registry.add_callback(BeforeModelCallEvent, self._begin_model_call)
        registry.add_callback(AfterModelCallEvent, self._end_model_call)
        registry.add_callback(BeforeToolCallEvent, self._begin_tool_call)
        registry.add_callback(AfterToolCallEvent, self._end_tool_call)
        registry.add_callback(AfterInvocationEvent, self._end)

    def _begin(self, event: BeforeInvocationEvent) -> None:
        agent: Any = event.agent
        self._runs[id(agent)] = agent, self._begin_run(agent.agent_id)

    def _end(self, event: AfterInvocationEvent) -> None:
        run = self._run_of(event)
        if event.result is not None and event.result.interrupts:
            run.forget_open_tool_calls()
        self._runs.pop(id(event.agent), None)
        completed(run.finish())

    def _begin_model_call(self, event: BeforeModelCallEvent) -> None:
        run = self._run_of(event)
        model: Any = event.agent.model
        config: Any = model.get_config()
        named = config.get("model_id") if isinstance(config, dict) else None
        run.begin_model_call(_MODEL, str(named or type(model).__name__))

    def _end_model_call(self, event: AfterModelCallEvent) -> None:
        message: Any = event.stop_response.message if event.stop_response else {}
        usage = message.get("metadata", {}).get("usage")
        self._run_of(event).end_model_call(_MODEL, _counts(usage), error=event.exception)

    def _begin_tool_call(self, event: BeforeToolCallEvent) -> None:
        run, call = self._run_of(event), event.tool_use
        run.begin_tool_call(call["toolUseId"], call["name"], call["input"], call["toolUseId"])

    def _end_tool_call(self, event: AfterToolCallEvent) -> None:
        result, failed = event.result, event.exception or event.cancel_message
        if failed is None and result.get("status") == "error":
            failed = str(result.get("content"))
        self._run_of(event).end_tool_call(
            event.tool_use["toolUseId"], result.get("content"), error=failed
        )

    def _run_of(self, event: Any) -> RunRecorder:
        _, run = self._runs.get(id(event.agent), (None, unrecorded()))
        return run


def _counts(usage: dict[str, int] | None) -> dict[str, int]:
    """Return the framework's counts; for some providers `inputTokens` is without cached ones."""
    if not usage:
        return {}
    total, output = usage.get("totalTokens", 0), usage.get("outputTokens", 0)
    return {
        "prompt_tokens": max(total - output, usage.get("inputTokens", 0)),
        "completion_tokens": output,
        "cached_prompt_tokens": usage.get("cacheReadInputTokens", 0),
        "cache_write_tokens": usage.get("cacheWriteInputTokens", 0),
    }
