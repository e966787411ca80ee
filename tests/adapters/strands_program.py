"""An agent of Strands Agents with a scripted model, and a program of one process with it.

Run as `python -m tests.adapters.strands_program CONFIG COMMAND`, with the configuration of a
message store as JSON, and one of these commands:

- `turn INPUT`: one turn of the agent, with a tool call; prints what the model was sent, as JSON.
- `killed INPUT`: the same, recorded, and killed in the middle of the tool.
- `add NAME COUNT`: adds messages through a session manager of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import Any

from strands import Agent, tool
from strands.models.model import Model
from strands.session.repository_session_manager import RepositorySessionManager

from jazzmine.adapters.strands import JazzmineSessionRepository
from jazzmine.sync import MessageStore


class ScriptedModel(Model):
    """Calls the tool `weather` for each new input, and then answers; keeps what it was sent."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.on_question: Callable[[], object] = lambda: None

    def update_config(self, **model_config: Any) -> None:
        raise AssertionError("an agent does not configure its model")

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        raise AssertionError("no agent of these tests asks for structured output")

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterable[Any]:
        self.on_question()
        self.inputs.append([dict(message) for message in messages])
        answered = any("toolResult" in block for block in messages[-1]["content"])
        yield {"messageStart": {"role": "assistant"}}
        if answered:
            yield {"contentBlockDelta": {"delta": {"text": "It rains."}}}
        else:
            call = {"toolUseId": f"call-{len(messages)}", "name": "weather"}
            yield {"contentBlockStart": {"start": {"toolUse": call}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"city":"Lisbon"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if answered else "tool_use"}}
        counts = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        usage = {**counts, "cacheReadInputTokens": 4}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: where
    """
    return f"rain in {city}"


@tool(name="weather")
def deadly(city: str) -> str:
    """Kill the process.

    Args:
        city: where
    """
    os._exit(0)


def agent(
    repository: JazzmineSessionRepository, session_id: str = "s1", **more: Any
) -> tuple[Agent, ScriptedModel]:
    """Return an agent with one tool whose session is in a repository, and its model."""
    model = ScriptedModel()
    manager = RepositorySessionManager(session_id, repository)
    made = Agent(
        model=model,
        agent_id="guide",
        callback_handler=None,
        **{"session_manager": manager, "tools": [weather], **more},
    )
    return made, model


def main() -> None:
    config, command, *arguments = sys.argv[1:]
    with MessageStore.initialize(json.loads(config)) as store:
        repository = JazzmineSessionRepository(store, user_id="u1", agent_id="a1")
        if command == "killed":
            guide, _ = agent(repository, tools=[deadly], hooks=[repository.recorder("s1")])
            guide(arguments[0])
        guide, model = agent(repository)
        if command == "turn":
            assert str(guide(arguments[0])).strip() == "It rains."
            print(json.dumps(model.inputs[-1]))
        else:
            manager: Any = guide._session_manager
            for number in range(int(arguments[1])):
                for half in (0, 1):
                    text = f"{arguments[0]} {number} {half}"
                    manager.append_message({"role": "user", "content": [{"text": text}]}, guide)


if __name__ == "__main__":
    main()
