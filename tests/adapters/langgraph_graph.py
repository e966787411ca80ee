"""A graph of LangGraph with a subgraph that interrupts."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import interrupt

SETTINGS: dict[str, Any] = {"configurable": {"thread_id": "t1", "user_id": "ana"}}


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    log: list[str]


def plan(state: State) -> dict[str, Any]:
    return {"log": [*state.get("log", []), "planned"]}


def confirm(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
    answer = interrupt("Shall I book?")
    if runtime.store is not None:
        runtime.store.put(("answers",), "last", {"text": answer})
    return {"messages": [AIMessage(f"You said {answer}.")], "log": [*state["log"], answer]}


def graph(saver: Any, store: Any = None) -> Any:
    """Return a graph: `plan`, and a subgraph `booking` that asks for a confirmation."""
    booking = StateGraph(State)
    booking.add_node("confirm", confirm)
    booking.add_edge(START, "confirm")
    whole = StateGraph(State)
    whole.add_node("plan", plan)
    whole.add_node("booking", booking.compile())
    whole.add_edge(START, "plan")
    whole.add_edge("plan", "booking")
    whole.add_edge("booking", END)
    return whole.compile(checkpointer=saver, store=store)
