"""The page on moving from LangGraph's own savers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from jazzmine.adapters.langgraph import JazzmineSaver
from jazzmine.sync import LongTermMemoryStore
from tests.adapters.langgraph_graph import SETTINGS, graph
from tests.adapters.processes import ROOT
from tests.examples.test_documentation import blocks_of

# LangGraph's savers for databases need packages of their own.
sqlite_saver = pytest.importorskip("langgraph.checkpoint.sqlite")


@contextmanager
def in_memory(_: Path) -> Iterator[Any]:
    yield InMemorySaver()


@contextmanager
def in_sqlite(folder: Path) -> Iterator[Any]:
    with sqlite_saver.SqliteSaver.from_conn_string(str(folder / "old.db")) as saver:
        yield saver


OLD: dict[str, Callable[[Path], AbstractContextManager[Any]]] = {
    "sqlite": in_sqlite,
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
    page: dict[str, Any] = {}
    exec(next(iter(blocks_of(ROOT / "docs/moving/langgraph.md"))).text, page)
    talk(old)
    new = JazzmineSaver(items)
    page["copy_thread"](old, new, "t1", user_id="bob")

    assert contents(new, "t1") == contents(old, "t1")
    stored = items.list_items()
    assert {item.user_id for item in stored} == {"ana"}
    page["copy_thread"](old, new, "t1")
    again = items.list_items()
    assert [(item.key, item.data) for item in again] == [(item.key, item.data) for item in stored]
    found = graph(new).invoke(Command(resume="no"), SETTINGS)
    assert found["log"] == ["planned", "no"]
