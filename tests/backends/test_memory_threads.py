"""A function that `update` calls, on the thread that it runs in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jazzmine.sync.working_memory import WorkingMemory, WorkingMemoryStore


def working_memory(cid: str = "c") -> WorkingMemory:
    return WorkingMemory(cid, "user", "agent")


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[WorkingMemoryStore]]:
    """A store with the conversations "c" and "d", and one that was quicker to save the first."""
    config = {"storage": request.param, "timeout": 5}
    if request.param == "sqlite":
        config["path"] = str(tmp_path / "memory.db")
    with (
        WorkingMemoryStore.initialize(config) as store,
        WorkingMemoryStore.initialize(config) as other,
    ):
        for cid in ("c", "d"):
            store.save(working_memory(cid))
        if request.param == "sqlite":
            other.end_turn("c", "quicker", "greet")
        yield [store, store.scoped(user_id="user")]


@pytest.mark.parametrize("cid", ["c", "d"])
def test_a_function_of_update_that_calls_its_store_is_told_at_once(
    stores: list[WorkingMemoryStore], cid: str
) -> None:
    """On SQLite it runs in the thread that writes, which would wait for itself."""
    for store in stores:

        def nested(wm: WorkingMemory, store: WorkingMemoryStore = store) -> None:
            store.set_data(cid, cart=1)

        with pytest.raises(RuntimeError, match="the working memory that it is given"):
            store.update("c", nested)

        assert store.set_data(cid, cart=2).data == {"cart": 2}


def test_a_function_of_update_ends_no_other_thread(stores: list[WorkingMemoryStore]) -> None:
    caller = threading.get_ident()

    def end(wm: WorkingMemory) -> None:
        if threading.get_ident() != caller:
            raise SystemExit("it would end the calls that are written together with this one")
        wm.end_turn("Hello", "greet")

    assert stores[0].update("c", end).last_agent_response == "Hello"
