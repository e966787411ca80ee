"""An agent of Pydantic AI with a scripted model, and a program of one process with it.

Run as `python -m tests.adapters.pydantic_ai_program CONFIG COMMAND`, with the configuration of a
message store as JSON, and one of these commands:

- `turn INPUT`: one turn of the agent, with a tool call; prints all messages, as JSON.
- `killed INPUT`: the same, recorded, and killed in the middle of the tool.
- `add NAME COUNT`: adds two messages at a time, and loads the conversation again at a conflict.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from jazzmine.adapters.pydantic_ai import JazzmineConversationStore
from jazzmine.sync import MessageStore


def agent(
    on_question: Callable[[], object] = lambda: None,
    on_call: Callable[[], object] = lambda: None,
    asks: bool = False,
    **more: Any,
) -> Agent[None, str]:
    """Return an agent whose model calls a tool for each new input, and then answers.

    Args:
        on_question: called when the model is asked.
        on_call: called when the tool is called.
        asks: whether a person has to approve the call.
        more: other arguments of the agent.
    """

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        on_question()
        usage = RequestUsage(input_tokens=10, output_tokens=5, cache_read_tokens=4)
        if isinstance(messages[-1].parts[-1], ToolReturnPart | RetryPromptPart):
            return ModelResponse(parts=[TextPart("It rains.")], usage=usage)
        return ModelResponse(parts=[ToolCallPart("weather", {"city": "Lisbon"})], usage=usage)

    def weather(city: str) -> str:
        """Tell the weather."""
        on_call()
        return f"rain in {city}"

    return Agent(FunctionModel(reply), tools=[Tool(weather, requires_approval=asks)], **more)


def main() -> None:
    config, command, *arguments = sys.argv[1:]
    with MessageStore.initialize(json.loads(config)) as store:
        conversations = JazzmineConversationStore(store, agent_id="a1", user_id="u1")
        if command == "turn":
            asyncio.run(_turn(conversations, arguments[0], agent()))
        elif command == "killed":
            recorder = conversations.recorder()
            guide = agent(on_call=lambda: os._exit(0), capabilities=[recorder])
            asyncio.run(_turn(conversations, arguments[0], guide))
        else:
            asyncio.run(_add(conversations, arguments[0], int(arguments[1])))


async def _turn(
    conversations: JazzmineConversationStore, question: str, guide: Agent[None, str]
) -> None:
    conversation = await conversations.load("c1") or Conversation(conversation_id="c1")
    result = await guide.run(question, conversation=conversation)
    assert result.output == "It rains."
    await conversations.save(result)
    print(result.all_messages_json().decode())


async def _add(conversations: JazzmineConversationStore, name: str, count: int) -> None:
    for number in range(count):
        saved = False
        while not saved:
            # With the whole history, each of many conflicts would cost more than the one before.
            found = await conversations.load("c1", limit=1)
            conversation = found or Conversation(conversation_id="c1")
            for half in (0, 1):
                prompt = UserPromptPart(f"{name} {number} {half}")
                conversation.messages.append(ModelRequest(parts=[prompt]))
            try:
                await conversations.save(conversation)
                saved = True
            except ConversationConflict:
                pass


if __name__ == "__main__":
    main()
