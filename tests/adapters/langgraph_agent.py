"""A graph of LangGraph with a scripted chat model and a tool, and a program of one process with it.

Run as `python -m tests.adapters.langgraph_agent CONFIG TEXT`, with the configuration of both stores
as JSON: three turns on checkpoints that refuse a stale one; each is repeated until it is stored.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition

from jazzmine import ConflictError
from jazzmine.adapters.langgraph import JazzmineSaver
from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.adapters.played_base import Played

__all__ = ["ScriptedModel", "agent", "question", "settings"]


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


class ScriptedModel(BaseChatModel):
    """Calls the tool `weather` for each new question, and then answers."""

    model_name: str = "scripted-1"
    on_question: Callable[[], object] = lambda: None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self.on_question()
        call = {"name": "weather", "args": {"city": "Lisbon"}, "id": f"call-{len(messages)}"}
        is_answered = isinstance(messages[-1], ToolMessage)
        said: Any = AIMessage(
            "It rains." if is_answered else "",
            tool_calls=[] if is_answered else [call],
            usage_metadata={
                "input_tokens": 10,
                "output_tokens": 5,
                "total_tokens": 15,
                "input_token_details": {"cache_read": 4},
            },
        )
        return ChatResult(generations=[ChatGeneration(message=said)])


def agent(
    saver: JazzmineSaver,
    on_call: Callable[[], object] = lambda: None,
    on_question: Callable[[], object] = lambda: None,
) -> Any:
    """Return a graph whose runs are recorded; its tool does something when it is called."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        on_call()
        return f"rain in {city}"

    scripted = ScriptedModel(on_question=on_question)
    builder = StateGraph(State)
    builder.add_node("model", lambda state: {"messages": [scripted.invoke(state["messages"])]})
    builder.add_node("tools", ToolNode([weather]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver).with_config(callbacks=[saver.recorder()])


def settings(thread: str = "t1") -> Any:
    """Return the config of a run."""
    return {"configurable": {"thread_id": thread, "user_id": "u1"}}


def question(text: str) -> Any:
    """Return the input of a run."""
    return {"messages": [("user", text)]}


class LangGraph(Played):
    conversation_id = "t1"

    def prepare(self) -> None:
        self.saver = JazzmineSaver(self.items, messages=self.store, agent_id="a1")

    def _graph(self) -> Any:
        return agent(self.saver, lambda: self.on_call(), lambda: self.on_question())

    async def run(self, text: str) -> None:
        await asyncio.to_thread(self._graph().invoke, question(text), settings(), durability="sync")

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        async for state in self._graph().astream(question(text), settings(), durability="sync"):
            yield state

    async def run_rejected(self, text: str) -> None:
        graph = self._graph()
        await graph.ainvoke(question(text), settings(), interrupt_before=["tools"])
        (call,) = (await graph.aget_state(settings())).values["messages"][-1].tool_calls
        said = ToolMessage("rejected", tool_call_id=call["id"], name="weather", status="error")
        await graph.ainvoke({"messages": [said]}, settings())

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        state = await asyncio.to_thread(self._graph().get_state, settings())
        found: list[tuple[str, Any]] = []
        for message in state.values.get("messages", []):
            if message.type == "tool":
                found.append(("answer", message.tool_call_id))
            else:
                found += [("call", call["id"]) for call in getattr(message, "tool_calls", [])]
                found += [("said", message.content)] if message.content else []
        return found


def _is_stored(saver: JazzmineSaver, text: str) -> bool:
    try:
        agent(saver).invoke(question(text), settings(), durability="exit")
    except ConflictError:
        return False
    return True


def main() -> None:
    config, text = sys.argv[1:]
    place = json.loads(config)
    with (
        MessageStore.initialize(place) as messages,
        LongTermMemoryStore.initialize(place) as items,
    ):
        saver = JazzmineSaver(items, messages=messages, agent_id="a1", refuse_stale=True)
        for number in range(3):
            while not _is_stored(saver, f"{text} {number}"):
                pass


if __name__ == "__main__":
    main()
