"""LangGraph's savers: a graph that keeps its messages in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks.rivals.store import Said, Store


class Graph(Store):
    """A graph of one node, which stands for the model and the tool: it adds the next message.

    `durability="sync"` stores each step before the next one begins, as the other libraries do;
    by default the graph goes on meanwhile.
    """

    imports = "import langgraph.graph, langgraph.checkpoint.sqlite"

    def _saver(self, place: str) -> Any:
        raise NotImplementedError

    async def open(self, place: str) -> None:
        from langgraph.config import get_config
        from langgraph.graph import END, START, MessagesState, StateGraph

        self._stack = ExitStack()

        def more(state: Any) -> str:
            return "step" if _left(state) else END

        def step(state: Any) -> Any:
            time.sleep(get_config()["configurable"]["pause"]())
            return {"messages": _left(state)[:1]}

        graph: Any = StateGraph(MessagesState)
        graph.add_node("step", step)
        graph.add_conditional_edges(START, more, ["step", END])
        graph.add_conditional_edges("step", more, ["step", END])
        self._graph = graph.compile(checkpointer=self._saver(place))

    async def create(self, session: str, user: str, title: str) -> None:
        """A thread is made with its first checkpoint; its metadata may hold the user."""

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        made = list(map(to_langchain, messages))
        self._run({"messages": made}, session, user, [], lambda: 0.0)

    async def turn(
        self, session: str, user: str, messages: list[Said], pause: Callable[[], float]
    ) -> None:
        question, *script = map(to_langchain, messages)
        await asyncio.to_thread(self._run, {"messages": [question]}, session, user, script, pause)

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        return list(map(from_langchain, self._messages(session)[-count:]))

    async def erase(self, user: str, sessions: list[str]) -> None:
        for session in sessions:
            self._graph.checkpointer.delete_thread(session)

    async def close(self) -> None:
        self._stack.close()

    def _messages(self, session: str) -> list[Any]:
        messages: list[Any] = self._graph.get_state(_config(session)).values.get("messages", [])
        return messages

    def _run(self, given: Any, session: str, user: str, script: list[Any], pause: Any) -> None:
        config = _config(session, script=script, pause=pause)
        self._graph.invoke(given, {**config, "metadata": {"user": user}}, durability="sync")


class SQLite(Graph):
    """SqliteSaver."""

    def _saver(self, place: str) -> Any:
        from langgraph.checkpoint.sqlite import SqliteSaver

        return self._stack.enter_context(SqliteSaver.from_conn_string(place))


class PostgreSQL(Graph):
    """PostgresSaver with a pool of connections."""

    def _saver(self, place: str) -> Any:
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import ConnectionPool

        options: dict[str, Any] = {
            "autocommit": True,
            "prepare_threshold": 0,
            "row_factory": dict_row,
        }
        pool: Any = ConnectionPool(place, min_size=2, max_size=10, kwargs=options, open=True)
        saver = PostgresSaver(self._stack.enter_context(pool))
        saver.setup()
        return saver


class Jazzmine(Graph):
    """JazzmineSaver, with which the second of two writers of a thread is refused."""

    def _saver(self, place: str) -> Any:
        from jazzmine.adapters.langgraph import JazzmineSaver
        from jazzmine.sync.long_term_memory import LongTermMemoryStore

        items = self._stack.enter_context(LongTermMemoryStore.initialize(place))
        options: dict[str, Any] = {"refuse_stale": True}
        return JazzmineSaver(items, **options)


def _config(session: str, **more: object) -> dict[str, Any]:
    return {"configurable": {"thread_id": session, **more}}


def _left(state: Any) -> list[Any]:
    """The messages of the turn that are not in the state yet."""
    from langgraph.config import get_config

    script = get_config()["configurable"]["script"]
    stored = {message.id for message in state["messages"][-len(script) :]} if script else ()
    return [message for message in script if message.id not in stored]


def to_langchain(message: Said) -> Any:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    if message["role"] == "tool":
        return ToolMessage(message["text"], tool_call_id=message["call"], id=message["id"])
    if message["role"] == "user":
        return HumanMessage(message["text"], id=message["id"])
    calls = [{"id": message["call"], "name": "track", "args": {}}] if message["call"] else []
    return AIMessage(message["text"], id=message["id"], tool_calls=calls)


def from_langchain(message: Any) -> Said:
    calls = getattr(message, "tool_calls", ())
    call = calls[0]["id"] if calls else getattr(message, "tool_call_id", "")
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    return {"id": message.id, "role": role, "text": message.content, "call": call}
