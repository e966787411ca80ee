"""A graph with a subgraph that interrupts, and a program of one process with it.

Run as `python -m tests.adapters.langgraph_program CONFIG COMMAND`, with the configuration of a
long-term memory as JSON, and one of these commands:

- `ask`: runs the graph to its interrupt, prints the question, and is killed.
- `answer TEXT`: goes on after the interrupt, and prints the state as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from jazzmine.adapters.langgraph import JazzmineSaver
from jazzmine.sync.long_term_memory import LongTermMemoryStore

SETTINGS: dict[str, Any] = {"configurable": {"thread_id": "t1", "user_id": "ana"}}


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    log: list[str]


def plan(state: State) -> dict[str, Any]:
    return {"log": [*state.get("log", []), "planned"]}


def confirm(state: State) -> dict[str, Any]:
    answer = interrupt("Shall I book?")
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


def main() -> None:
    config, command, *rest = sys.argv[1:]
    with LongTermMemoryStore.initialize(json.loads(config)) as items:
        agent = graph(JazzmineSaver(items))
        if command == "ask":
            found = agent.invoke({"messages": [("user", "A hotel!")]}, SETTINGS, durability="sync")
            print(found["__interrupt__"][0].value, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        found = agent.invoke(Command(resume=rest[0]), SETTINGS)
        said = [message.content for message in found["messages"]]
        print(json.dumps({"log": found["log"], "said": said}))


if __name__ == "__main__":
    main()
