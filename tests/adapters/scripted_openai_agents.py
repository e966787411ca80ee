"""An agent of the OpenAI Agents SDK with a scripted model, and its sessions and items."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from agents import Agent, Runner, Tool, Usage, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai.types.responses.response_usage import (
    InputTokensDetails,
    OutputTokensDetails,
    ResponseUsage,
)

from jazzmine.adapters._items import text_of
from jazzmine.adapters.openai_agents import JazzmineSession
from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.played_base import Played

set_tracing_disabled(True)


class ScriptedModel(Model):
    """Calls a tool for each new input, and then answers; keeps what it was sent."""

    def __init__(self, tool: str = "weather", arguments: str = '{"city":"Lisbon"}') -> None:
        self._tool, self._arguments = tool, arguments
        self.inputs: list[Any] = []
        self.on_question: Callable[[], object] = lambda: None

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        self.on_question()
        given = kwargs["input"] if "input" in kwargs else args[1]
        self.inputs.append(
            [{"role": "user", "content": given}] if isinstance(given, str) else given
        )
        number = len(self.inputs)
        output: Any
        if self.inputs[-1][-1].get("type") == "function_call_output":
            text = ResponseOutputText(text="It rains.", type="output_text", annotations=[])
            output = ResponseOutputMessage(
                id=f"m{number}",
                content=[text],
                role="assistant",
                status="completed",
                type="message",
            )
        else:
            output = ResponseFunctionToolCall(
                call_id=f"call-{number}-{len(self.inputs[-1])}",
                name=self._tool,
                arguments=self._arguments,
                type="function_call",
            )
        usage = Usage(
            requests=1,
            input_tokens=10,
            output_tokens=5,
            total_tokens=15,
            input_tokens_details=InputTokensDetails.model_construct(
                cached_tokens=4, cache_write_tokens=0
            ),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=2),
        )
        return ModelResponse(output=[output], usage=usage, response_id=f"r{number}")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        answer = await self.get_response(*args, **kwargs)
        used = ResponseUsage(
            input_tokens=10,
            output_tokens=5,
            total_tokens=15,
            input_tokens_details=answer.usage.input_tokens_details,
            output_tokens_details=answer.usage.output_tokens_details,
        )
        response = Response.model_construct(id="r", output=answer.output, usage=used)
        yield ResponseCompletedEvent.model_construct(
            type="response.completed", response=response, sequence_number=0
        )


def agent(
    on_call: Callable[[], object] = lambda: None, **more: Any
) -> tuple[Agent[Any], ScriptedModel]:
    """Return an agent with one tool, which does something when it is called, and its model."""

    def weather(city: str) -> str:
        """Tell the weather."""
        on_call()
        return f"rain in {city}"

    model = ScriptedModel()
    tools: list[Tool] = [function_tool(weather, **more)]
    return Agent(name="guide", model=model, tools=tools), model


def asking(tool: str, arguments: str = "{}", **more: Any) -> Agent[Any]:
    """Return an agent that calls a tool of another name, or hands over."""
    return Agent(name="asking", model=ScriptedModel(tool, arguments), **more)


CALL = {"type": "function_call", "call_id": "k", "name": "weather", "arguments": '{"city":"X"}'}
OUTPUT = {"type": "function_call_output", "call_id": "k", "output": "rain"}


def session_of(store: MessageStore | SyncMessageStore, name: str = "s1", **more: Any) -> Any:
    """A session; untyped, because tests add items that the SDK's types do not know."""
    return JazzmineSession(store, name, user_id="u1", agent_id="a1", **more)


def said(*contents: str) -> list[dict[str, object]]:
    return [{"role": "user", "content": content} for content in contents]


def contents(items: list[dict[str, Any]]) -> list[Any]:
    return [item["content"] for item in items]


class OpenAIAgents(Played):
    def prepare(self) -> None:
        """Make nothing: each run has a session and an agent of its own."""

    async def run(self, text: str) -> None:
        session, (guide, model) = session_of(self.store), agent(lambda: self.on_call())
        model.on_question = lambda: self.on_question()
        async with session.recorder() as hooks:
            await Runner.run(guide, text, session=session, hooks=hooks)

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        session, (guide, _) = session_of(self.store), agent(lambda: self.on_call())
        async with session.recorder() as hooks:
            self.streamed = Runner.run_streamed(guide, text, session=session, hooks=hooks)
            async for event in self.streamed.stream_events():
                yield event

    async def add(self, texts: list[str]) -> None:
        await session_of(self.store).add_items(said(*texts))

    async def run_rejected(self, text: str) -> None:
        session, (guide, _) = session_of(self.store), agent(needs_approval=True)
        async with session.recorder() as hooks:
            result = await Runner.run(guide, text, session=session, hooks=hooks)
        state = result.to_state()
        state.reject(result.interruptions[0])
        async with session.recorder() as hooks:
            await Runner.run(guide, state, session=session, hooks=hooks)

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        kinds = {"function_call": "call", "function_call_output": "answer"}
        items = await session_of(self.store, conversation_id or self.conversation_id).get_items()
        return [
            (kinds.get(item.get("type"), "said"), item.get("call_id") or text_of(item["content"]))
            for item in items
        ]
