"""Two runs of one thread, whose an item is, and which ids a thread may have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from jazzmine import ConflictError
from jazzmine.adapters.langgraph import JazzmineSaver, JazzmineStore
from jazzmine.core.long_term_memory import LongTermMemoryStore as AsyncItems
from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.adapters.langgraph_agent import agent, question, settings
from tests.adapters.processes import run_together


@pytest.fixture
def items(item_config: Any) -> Iterator[LongTermMemoryStore]:
    with LongTermMemoryStore.initialize(item_config) as opened:
        yield opened


def texts(graph: Any, config: Any) -> list[str]:
    return [message.content for message in graph.get_state(config).values["messages"]]


def test_of_two_runs_at_once_none_loses_the_others_turn(items: LongTermMemoryStore) -> None:
    with MessageStore.initialize("memory:") as messages:
        saver = JazzmineSaver(items, messages=messages, refuse_stale=True)
        other = agent(JazzmineSaver(items, messages=messages, refuse_stale=True))
        agent(saver).invoke(question("Rain?"), settings(), durability="sync")
        graph = agent(
            saver, lambda: other.invoke(question("Between"), settings(), durability="sync")
        )

        with pytest.raises(ConflictError, match="run it again"):
            graph.invoke(question("And now?"), settings(), durability="exit")

        found = texts(other, settings())
        assert "Between" in found
        assert "And now?" not in found
        agent(saver).invoke(question("And now?"), settings(), durability="sync")
        assert texts(other, settings())[-1] == "It rains."
        assert "And now?" in texts(other, settings())


def test_no_turn_of_two_processes_is_lost(url: str) -> None:
    config: dict[str, object] = {"storage": "sqlite", "path": url.removeprefix("sqlite:")}
    run_together("tests.adapters.langgraph_agent", config, ("a",), ("b",))

    with LongTermMemoryStore.initialize(config) as items, MessageStore.initialize(url) as messages:
        left = texts(agent(JazzmineSaver(items, messages=messages)), settings())
    asked = [text for text in left if text not in ("", "rain in Lisbon", "It rains.")]
    assert sorted(asked) == [f"{name} {number}" for name in "ab" for number in range(3)]


def test_time_travel_is_no_stale_run(items: LongTermMemoryStore) -> None:
    with MessageStore.initialize("memory:") as messages:
        graph = agent(JazzmineSaver(items, messages=messages, refuse_stale=True))
        for text in ("one", "two"):
            graph.invoke(question(text), settings(), durability="sync")
        *_, oldest = graph.get_state_history(settings())
        between = [state for state in graph.get_state_history(settings()) if not state.next]

        graph.invoke(question("three"), between[-1].config, durability="sync")

        assert texts(graph, settings())[0] == "one"
        assert "two" not in texts(graph, settings())
        graph.update_state(oldest.config, question("four"))
        graph.update_state(between[-1].config, None, as_node="__copy__")
        graph.invoke(question("five"), settings(), durability="sync")


def test_a_run_that_was_deleted_makes_no_other_stale(items: LongTermMemoryStore) -> None:
    with MessageStore.initialize("memory:") as messages:
        saver = JazzmineSaver(items, messages=messages, refuse_stale=True)
        agent(saver).invoke(question("one"), settings())
        agent(saver).invoke(question("two"), {**settings(), "metadata": {"run_id": "r2"}})
        saver.delete_for_runs(["r2"])

        agent(saver).invoke(question("three"), settings())

        assert [text for text in texts(agent(saver), settings()) if text in ("two", "three")] == [
            "three"
        ]


def test_a_machine_whose_clock_is_behind_is_refused_until_it_is_not(
    items: LongTermMemoryStore,
) -> None:
    saver = JazzmineSaver(items, refuse_stale=True)
    first = {**empty_checkpoint(), "id": "1f2"}
    newest = saver.put(settings(), first, {}, {})  # type: ignore[arg-type]

    with pytest.raises(ConflictError, match="clock of this machine is behind"):
        saver.put(newest, {**first, "id": "1f1"}, {}, {})  # type: ignore[arg-type]

    newest = saver.put(newest, {**first, "id": "1f3"}, {}, {})  # type: ignore[arg-type]
    assert newest["configurable"]["checkpoint_id"] == "1f3"


@pytest.mark.parametrize("missing", [None, False, ""])
def test_a_thread_has_an_id(items: LongTermMemoryStore, missing: Any) -> None:
    saver = JazzmineSaver(items)
    config: Any = {"configurable": {"thread_id": missing}}
    with pytest.raises(ValueError, match="thread_id is missing"):
        saver.get_tuple(config)
    with pytest.raises(ValueError, match="thread_id is missing"):
        list(saver.list(config))
    for call in (saver.delete_thread, lambda name: saver.copy_thread(name, "t")):
        with pytest.raises(ValueError, match="thread_id is missing"):
            call(missing)
    for read in (saver.get_tuple, lambda config: list(saver.list(config))):
        with pytest.raises(ValueError, match="thread_id is missing"):
            read({"configurable": {}})
    for delete in (saver.prune, saver.delete_for_runs):
        with pytest.raises(TypeError, match="must be a list"):
            delete("t1")


def test_numbers_and_uuids_are_ids(items: LongTermMemoryStore) -> None:
    saver = JazzmineSaver(items)
    for name in (0, 7, UUID(int=1)):
        assert saver.get_tuple({"configurable": {"thread_id": name}}) is None
    with pytest.raises(TypeError, match="thread_id"):
        saver.get_tuple({"configurable": {"thread_id": ["t"]}})


def test_an_item_keeps_its_owner(items: LongTermMemoryStore) -> None:
    from langchain_core.runnables.config import var_child_runnable_config

    store = JazzmineStore(items)
    token = var_child_runnable_config.set({"configurable": {"user_id": 0}})
    store.put(("facts",), "k", {"n": 1})
    var_child_runnable_config.reset(token)

    store.put(("facts",), "k", {"n": 2})

    found = store.get(("facts",), "k")
    assert found is not None
    assert found.value == {"n": 2}
    assert items.erase_user("0") == 1
    assert store.get(("facts",), "k") is None


def test_a_copy_beside_a_writer_has_all_its_values(
    items: LongTermMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessageStore.initialize("memory:") as messages:
        saver = JazzmineSaver(items, messages=messages)
        graph = agent(saver)
        graph.invoke(question("one"), settings(), durability="sync")
        listed, turns = items.list_items, ["two"]

        def list_and_write(*args: Any, **kwargs: Any) -> Any:
            page = listed(*args, **kwargs)
            if turns and "values" in args[0]:
                graph.invoke(question(turns.pop()), settings(), durability="sync")
            return page

        monkeypatch.setattr(items, "list_items", list_and_write)
        saver.copy_thread("t1", "t2")

        assert not turns
        assert texts(graph, settings("t2"))[0] == "one"
        assert texts(graph, settings("t2"))[-1] == "It rains."


def test_the_newest_checkpoints_of_all_threads_are_listed(items: LongTermMemoryStore) -> None:
    with MessageStore.initialize("memory:") as messages:
        saver = JazzmineSaver(items, messages=messages)
        for number in range(4):
            agent(saver).invoke(question("Rain?"), settings(f"t{number}"), durability="sync")
        everything = [found.checkpoint["id"] for found in saver.list(None)]

        found = list(saver.list(None, limit=3))

        assert [one.checkpoint["id"] for one in found] == everything[:3]
        assert found[0].pending_writes is not None


def test_a_loop_that_does_not_run_is_an_error_at_once() -> None:
    loop = asyncio.new_event_loop()

    async def opened() -> tuple[Any, JazzmineSaver]:
        items = await AsyncItems.initialize("memory:")
        return items, JazzmineSaver(items)

    items, saver = loop.run_until_complete(opened())
    try:
        with pytest.raises(RuntimeError, match="does not run"):
            saver.get_tuple({"configurable": {"thread_id": "t"}})
    finally:
        loop.run_until_complete(items.close())
        loop.close()
