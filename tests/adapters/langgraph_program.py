"""A graph with a subgraph that interrupts, and a program of one process with it.

Run as `python -m tests.adapters.langgraph_program CONFIG COMMAND`, with the configuration of a
long-term memory as JSON, and one of these commands:

- `ask`: runs the graph to its interrupt, prints the question, and is killed.
- `answer TEXT`: goes on after the interrupt, and prints the state as JSON.
- `begin`: runs the graph of two parallel tasks, and is killed when one of them is done.
- `end`: goes on with that, and prints which tasks ran, and the state, as JSON.
"""

from __future__ import annotations

import json
import operator
import os
import signal
import sys
import time
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from jazzmine.adapters.langgraph import JazzmineSaver
from jazzmine.sync.long_term_memory import LongTermMemoryStore

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


class Done(TypedDict):
    done: Annotated[list[str], operator.add]


def parallel(saver: Any, ran: list[str], *, is_killed: bool) -> Any:
    """Return a graph of two tasks in one step; its second task kills the process, or not."""

    def first(_: Done) -> dict[str, Any]:
        ran.append("first")
        return {"done": ["first"]}

    def second(_: Done) -> dict[str, Any]:
        ran.append("second")
        while is_killed:
            found = saver.get_tuple(SETTINGS)
            if found is not None and any(
                channel == "done" for _, channel, _ in found.pending_writes
            ):
                time.sleep(0.5)  # the call that has stored it ends
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
        return {"done": ["second"]}

    whole = StateGraph(Done)
    nodes: list[Any] = [first, second]
    for node in nodes:
        whole.add_node(node.__name__, node)
        whole.add_edge(START, node.__name__)
    return whole.compile(checkpointer=saver)


def main() -> None:
    config, command, *rest = sys.argv[1:]
    with LongTermMemoryStore.initialize(json.loads(config)) as items:
        ran: list[str] = []
        if command == "begin":
            parallel(JazzmineSaver(items), ran, is_killed=True).invoke({"done": []}, SETTINGS)
        if command == "end":
            found = parallel(JazzmineSaver(items), ran, is_killed=False).invoke(None, SETTINGS)
            print(json.dumps({"ran": ran, "done": found["done"]}))
            return
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
