"""Threads are copied from LangGraph's own savers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from psycopg.rows import dict_row

from jazzmine.adapters.langgraph import JazzmineSaver, copy_threads
from jazzmine.sync import LongTermMemoryStore
from tests.adapters.langgraph_program import SETTINGS, graph
from tests.servers import postgres

# LangGraph's savers for databases need packages of their own.
sqlite_saver = pytest.importorskip("langgraph.checkpoint.sqlite")
postgres_saver = pytest.importorskip("langgraph.checkpoint.postgres")


@contextmanager
def in_memory(_: Path) -> Iterator[Any]:
    yield InMemorySaver()


@contextmanager
def in_sqlite(folder: Path) -> Iterator[Any]:
    with sqlite_saver.SqliteSaver.from_conn_string(str(folder / "old.db")) as saver:
        yield saver


@contextmanager
def in_postgres(_: Path) -> Iterator[Any]:
    with postgres.new_schema() as schema:
        address = postgres.changed(
            postgres.dsn(), options=f"-c search_path={schema}", client_encoding="UTF8"
        )
        with postgres.connect(address, row_factory=dict_row) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
            saver = postgres_saver.PostgresSaver(connection)
            saver.setup()
            yield saver


OLD: dict[str, Callable[[Path], AbstractContextManager[Any]]] = {
    "sqlite": in_sqlite,
    "postgres": in_postgres,
    "memory": in_memory,
}


@pytest.fixture(params=OLD)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with OLD[request.param](tmp_path) as saver:
        yield saver


@pytest.fixture
def items() -> Iterator[LongTermMemoryStore]:
    with LongTermMemoryStore.initialize("memory:") as opened:
        yield opened


class Counted(TypedDict):
    numbers: Annotated[list[int], operator.add]
    noise: bytes


def counting(saver: Any) -> Any:
    def count(state: Counted) -> dict[str, Any]:
        number = len(state["numbers"])
        return {"numbers": [number], "noise": bytes([number]) * 100}

    built: StateGraph[Any] = StateGraph(Counted)
    node: Any = count
    built.add_node("count", node)
    built.add_edge(START, "count")
    return built.compile(checkpointer=saver)


def talk(saver: Any) -> None:
    """Store a thread with an interrupt in a subgraph, a branch, and pending writes."""
    agent = graph(saver)
    agent.invoke({"messages": [("user", "A hotel!")]}, SETTINGS)
    paused = agent.get_state(SETTINGS, subgraphs=True)
    agent.invoke(Command(resume="yes"), SETTINGS)
    settings = {**paused.config["configurable"], **SETTINGS["configurable"]}
    agent.invoke(None, {"configurable": settings})


def contents(saver: Any, thread_id: str) -> list[Any]:
    found: list[CheckpointTuple] = list(saver.list({"configurable": {"thread_id": thread_id}}))
    found.sort(key=lambda one: one.checkpoint["id"])
    return [
        (
            one.config["configurable"]["checkpoint_ns"],
            one.checkpoint,
            one.metadata,
            one.parent_config and one.parent_config["configurable"]["checkpoint_id"],
            sorted(one.pending_writes or [], key=lambda write: write[:2]),
        )
        for one in found
    ]


def test_a_copied_thread_goes_on_where_it_was(old: Any, items: LongTermMemoryStore) -> None:
    talk(old)
    new = JazzmineSaver(items)

    assert list(copy_threads(old, new, ["t1"])) == ["t1"]

    assert contents(new, "t1") == contents(old, "t1")
    assert {item.user_id for item in items.list_items()} == {"ana"}
    found = graph(new).invoke(Command(resume="no"), SETTINGS)
    assert found["log"] == ["planned", "no"]


def test_each_value_of_a_long_thread_is_stored_once(old: Any, items: LongTermMemoryStore) -> None:
    settings: Any = {"configurable": {"thread_id": "long"}}
    for _ in range(25):
        counting(old).invoke({"numbers": [1000]}, settings)
    new = JazzmineSaver(items)
    assert list(copy_threads(old, new, ["long"], user_id="ann")) == ["long"]

    copied = contents(new, "long")
    assert len(copied) == 75
    assert [metadata.pop("user_id") for _, _, metadata, _, _ in copied] == ["ann"] * 75
    assert copied == contents(old, "long")
    stored = items.list_items()
    assert {item.user_id for item in stored} == {"ann"}
    assert len(list(copy_threads(old, new, ["long"], user_id="ann"))) == 1
    again = items.list_items()
    assert [(item.key, item.data) for item in again] == [(item.key, item.data) for item in stored]


def test_an_unknown_thread_has_nothing_to_copy(items: LongTermMemoryStore) -> None:
    assert list(copy_threads(InMemorySaver(), JazzmineSaver(items), ["t1"])) == ["t1"]
    assert items.list_items() == []
