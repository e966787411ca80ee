"""An agent of the OpenAI Agents SDK with a scripted model, and a program of one process with it.

Run as `python -m tests.adapters.openai_agents_program CONFIG COMMAND`, with the configuration of a
message store as JSON, and one of these commands:

- `turn INPUT`: one turn of the agent, with a tool call; prints what the model was sent, as JSON.
- `killed INPUT`: the same, recorded, and killed in the middle of the tool.
- `add NAME COUNT`: adds two items at a time.
- `pop COUNT`: pops items until there is none; prints the `content` of each.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
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

from jazzmine.adapters.openai_agents import JazzmineSession
from jazzmine.sync import MessageStore

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


def main() -> None:
    config, command, *arguments = sys.argv[1:]
    with MessageStore.initialize(json.loads(config)) as store:
        session = JazzmineSession(store, "s1", user_id="u1", agent_id="a1")
        if command == "turn":
            guide, model = agent()
            result = Runner.run_sync(guide, arguments[0], session=session)
            assert result.final_output == "It rains."
            print(json.dumps(model.inputs[-1]))
        elif command == "killed":
            guide, _ = agent(lambda: os._exit(0))
            with session.recorder() as hooks:
                Runner.run_sync(guide, arguments[0], session=session, hooks=hooks)
        elif command == "add":
            asyncio.run(_add(session, arguments[0], int(arguments[1])))
        else:
            asyncio.run(_pop(session))


async def _add(session: JazzmineSession, name: str, count: int) -> None:
    for number in range(count):
        pair: Any = [{"role": "user", "content": f"{name} {number} {half}"} for half in (0, 1)]
        await session.add_items(pair)


async def _pop(session: Any) -> None:
    while (item := await session.pop_item()) is not None:
        print(item["content"])


if __name__ == "__main__":
    main()
