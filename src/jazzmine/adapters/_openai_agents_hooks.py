"""The hooks of the OpenAI Agents SDK that record runs, and what they read in items."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any

from agents import RunHooks
from agents.models import get_default_model

from jazzmine.adapters._calls import called_directly, completed, finished
from jazzmine.adapters._conversations import Conversations
from jazzmine.adapters._recorder import RunRecorder, parsed_json

# What the SDK gives a model in place of the result of a function tool that raised, or timed out.
_TOOL_FAILED = re.compile(r"An error occurred while running the tool|Tool '.*' timed out after ")

# What the SDK gives a model for a call that hands over to another agent.
_HANDED_OVER = re.compile(r'\{"assistant": ".*"\}$')

# The text in place of the output of a call that a person, or a guardrail, did not let run.
_NOT_RUN = "the call was not run"

# The run that the code of a task belongs to.
RUN: ContextVar[RunRecorder | None] = ContextVar("jazzmine_run", default=None)


class JazzmineRunHooks(RunHooks[Any]):
    """The hooks of one run, which record its calls of models and tools, and its errors.

    Made by `JazzmineSession.recorder`, and used around the run, as `async with` or, with a sync
    store, `with`:

        async with session.recorder() as hooks:
            result = await Runner.run(agent, "Will it rain?", session=session, hooks=hooks)

    An untitled conversation gets a title from the user's first message.
    """

    def __init__(self, conversations: Conversations, session_id: str) -> None:
        self._conversations, self._session_id = conversations, session_id
        self._run: RunRecorder | None = None
        self._outer: RunRecorder | None = None

    async def __aenter__(self) -> JazzmineRunHooks:
        return self._begin()

    async def __aexit__(self, kind: object, error: BaseException | None, at: object) -> None:
        await finished(self._end().finish(error))

    def __enter__(self) -> JazzmineRunHooks:
        called_directly(self._conversations.given)
        return self._begin()

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        run = self._end()
        run.store = called_directly(self._conversations.given)
        completed(run.finish(error))

    def _begin(self) -> JazzmineRunHooks:
        self._run = self._conversations.recorder(self._session_id)
        # What the run has used: a run that is resumed begins with what was used before.
        self._usage: Any = None
        self._used_before = (0, 0)
        self._outer = RUN.get()
        RUN.set(self._run)
        return self

    def _end(self) -> RunRecorder:
        RUN.set(self._outer)
        run = self._recorded
        if self._usage is not None:
            prompt, completion = self._used_before
            run.note_total(
                {
                    "prompt_tokens": self._usage.input_tokens - prompt,
                    "completion_tokens": self._usage.output_tokens - completion,
                }
            )
        return run

    @property
    def _recorded(self) -> RunRecorder:
        if self._run is None:
            raise RuntimeError("use the recorder around the run: async with session.recorder()")
        return self._run

    def _run_in(self, context: Any) -> RunRecorder:
        run = self._recorded
        if self._usage is None:
            self._usage = context.usage
            self._used_before = (self._usage.input_tokens, self._usage.output_tokens)
        return run

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: Any
    ) -> None:
        """Note that a model is called."""
        self._run_in(context).begin_model_call((id(context), agent.name), *_model_of(agent))

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Note what a model's call used."""
        used = response.usage
        usage = {
            "prompt_tokens": used.input_tokens,
            "completion_tokens": used.output_tokens,
            "total_tokens": used.total_tokens,
            "cached_prompt_tokens": getattr(used.input_tokens_details, "cached_tokens", None),
            "cache_write_tokens": getattr(used.input_tokens_details, "cache_write_tokens", None),
            "reasoning_tokens": getattr(used.output_tokens_details, "reasoning_tokens", None),
        }
        self._recorded.end_model_call((id(context), agent.name), usage)
        for item in response.output:
            note_item(self._recorded, _plain(item))

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Note that a tool is called."""
        run, call_id = self._run_in(context), getattr(context, "tool_call_id", "")
        arguments = parsed_json(getattr(context, "tool_arguments", None))
        run.begin_tool_call(call_id or id(tool), tool.name, arguments, call_id)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Note what a tool returned."""
        key = getattr(context, "tool_call_id", "") or id(tool)
        if not await self._recorded.is_known(key):
            # An agent as a tool, which has waited for an approval, and began in an earlier run.
            await self.on_tool_start(context, agent, tool)
        failed = isinstance(result, str) and _TOOL_FAILED.match(result)
        self._recorded.end_tool_call(key, result, error=str(result) if failed else None)


def _model_of(agent: Any) -> tuple[str, str]:
    """Return the names of an agent's model and of its provider, as far as they are known."""
    model = get_default_model() if agent.model is None else agent.model
    if isinstance(model, str):
        provider, _, name = model.rpartition("/")
        return name, provider or "openai"
    return str(getattr(model, "model", type(model).__name__)), ""


def _plain(item: Any) -> Any:
    return item if isinstance(item, dict) else item.model_dump(exclude_unset=True)


def part_of(item: Any) -> tuple[Any, str]:
    """Return what an item is to its neighbours, and what it has in common with another one."""
    fields = item if isinstance(item, dict) else {}
    kind = str(fields.get("type", "message"))
    if kind == "message" and "call_id" not in fields:
        return "said" if fields.get("role") == "assistant" else "other", ""
    if kind == "mcp_approval_request":
        return "call", str(fields.get("id"))
    if kind == "mcp_approval_response":
        return "answer", str(fields.get("approval_request_id"))
    if kind == "reasoning":
        return "reasoning", ""
    if isinstance(fields.get("call_id"), str):
        is_answer = kind.endswith("_output")
        return "answer" if is_answer else "call", str(fields["call_id"])
    made = fields.get("role") == "assistant" or kind.endswith("_call")
    return "said" if made else "other", ""


def note_item(run: RunRecorder, item: Any) -> None:
    """Note a call of a tool that a model has asked for, or what it is given for one."""
    kind, key = part_of(item)
    if kind == "call":
        arguments = parsed_json(item.get("arguments") or item.get("input") or item.get("action"))
        run.ask_tool_call(key, str(item.get("name") or item.get("type")), arguments)
    elif kind == "answer":
        output = item.get("output") or _NOT_RUN
        is_handover = isinstance(output, str) and _HANDED_OVER.match(output) is not None
        run.answer_tool_call(key, output, is_error=not is_handover)
