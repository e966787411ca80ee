"""Graphs of LangGraph with their checkpoints and their store in a long-term memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.types import Command

from jazzmine import ConfigurationError
from jazzmine.adapters.langgraph import JazzmineSaver
from jazzmine.core.long_term_memory import LongTermMemoryStore
from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore as SyncLongTermMemoryStore
from tests.adapters.langgraph_graph import SETTINGS, graph
from tests.behaviour.backends import Config

THREAD: dict[str, Any] = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}
QUESTION = {"messages": [("user", "A hotel!")]}


@pytest.fixture
def items(item_config: Config) -> Iterator[SyncLongTermMemoryStore]:
    with SyncLongTermMemoryStore.initialize(item_config) as opened:
        yield opened


@pytest.fixture
async def async_items(item_config: Config) -> AsyncIterator[LongTermMemoryStore]:
    async with await LongTermMemoryStore.initialize(item_config) as opened:
        yield opened


@pytest.fixture
def memory() -> Iterator[SyncLongTermMemoryStore]:
    with SyncLongTermMemoryStore.initialize("memory:") as opened:
        yield opened


def checkpoint(versions: dict[str, Any], values: dict[str, Any]) -> Any:
    made = {**empty_checkpoint(), "id": str(uuid6()), "channel_versions": versions}
    return {**made, "channel_values": values}


def put(saver: JazzmineSaver, parent: Any, value: Any, version: Any = 1) -> Any:
    made = checkpoint({"c": version}, {"c": value})
    return saver.put(parent, made, {"source": "loop", "step": 1}, {"c": version})


def value_at(saver: JazzmineSaver, config: Any) -> Any:
    found = saver.get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"].get("c")


def test_a_graph_goes_on_after_its_interrupt_and_from_an_earlier_state(
    items: SyncLongTermMemoryStore,
) -> None:
    agent = graph(JazzmineSaver(items))
    agent.invoke(QUESTION, SETTINGS)
    paused = agent.get_state(SETTINGS, subgraphs=True)
    assert agent.invoke(Command(resume="yes"), SETTINGS)["log"] == ["planned", "yes"]

    agent.invoke(None, paused.config)
    assert agent.invoke(Command(resume="no"), SETTINGS)["log"] == ["planned", "no"]

    logs = [state.values.get("log") for state in agent.get_state_history(SETTINGS)]
    assert ["planned", "yes"] in logs
    assert ["planned", "no"] in logs


async def test_plain_calls_in_other_threads_use_an_async_store(
    async_items: LongTermMemoryStore,
) -> None:
    saver = JazzmineSaver(async_items)
    agent = graph(saver)
    await asyncio.to_thread(agent.invoke, QUESTION, SETTINGS)
    found = await asyncio.to_thread(agent.invoke, Command(resume="yes"), SETTINGS)
    assert found["log"] == ["planned", "yes"]
    with pytest.raises(RuntimeError, match="would be blocked"):
        saver.get_tuple(SETTINGS)


def test_branches_with_one_version_keep_their_values(items: SyncLongTermMemoryStore) -> None:
    saver = JazzmineSaver(items)
    root = put(saver, THREAD, ["root"])
    left = put(saver, root, ["left"], 2)
    right = put(saver, root, ["right"], 2)
    again = JazzmineSaver(items)

    assert [value_at(again, at) for at in (root, left, right)] == [["root"], ["left"], ["right"]]
    assert saver.get_next_version(2, None) != saver.get_next_version(2, None)


def test_a_list_that_grows_is_stored_once(memory: SyncLongTermMemoryStore) -> None:
    saver = JazzmineSaver(memory)
    said = [f"{number} {'x' * 100}" for number in range(1_000)]
    at = put(saver, THREAD, said)
    before = sum(len(item.data or b"") for item in memory.list_items())
    at = put(saver, at, [*said, "more"], 2)
    after = sum(len(item.data or b"") for item in memory.list_items())

    assert after - before < 5_000
    assert value_at(JazzmineSaver(memory), at) == [*said, "more"]


def test_pruning_keeps_the_values_of_the_latest_checkpoint(
    memory: SyncLongTermMemoryStore,
) -> None:
    saver = JazzmineSaver(memory)
    said = [str(number) for number in range(100)]
    at = THREAD
    for count in range(40, 101, 10):
        at = put(saver, at, said[:count], count)
    stored = len(memory.list_items())
    saver.prune(["t1"])

    assert [value_at(saver, found.config) for found in saver.list(THREAD)] == [said]
    assert len(memory.list_items()) < stored
    at = put(saver, at, [*said, "more"], 101)
    assert value_at(JazzmineSaver(memory), at) == [*said, "more"]


def test_pruning_keeps_what_the_delta_channels_of_the_latest_checkpoint_need(
    memory: SyncLongTermMemoryStore,
) -> None:
    saver = JazzmineSaver(memory)
    older = put(saver, THREAD, ["older"])
    snapshot = latest = put(saver, older, ["snapshot"], 2)
    for step in (3, 4):
        saver.put_writes(latest, [("c", f"step {step}")], f"task {step}")
        metadata: Any = {"step": step, "counters_since_delta_snapshot": {"c": (step, step)}}
        latest = saver.put(latest, checkpoint({"c": step}, {}), metadata, {"c": step})
    before = saver.get_delta_channel_history(config=latest, channels=["c"])
    assert [write[2] for write in before["c"]["writes"]] == ["step 3", "step 4"]

    saver.prune(["t1"])

    assert saver.get_delta_channel_history(config=latest, channels=["c"]) == before
    assert value_at(saver, snapshot) == ["snapshot"]
    assert saver.get_tuple(older) is None


def test_an_encrypting_serializer_leaves_no_text(memory: SyncLongTermMemoryStore) -> None:
    class Reversed:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "reversed", plaintext[::-1]

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            return ciphertext[::-1]

    serde = EncryptedSerializer(Reversed())
    saver = JazzmineSaver(memory, serde=serde)
    assert value_at(saver, put(saver, THREAD, ["a secret"])) == ["a secret"]
    assert not any(b"a secret" in (item.data or b"") for item in memory.list_items())
    with MessageStore.initialize("memory:") as store, pytest.raises(ConfigurationError):
        JazzmineSaver(memory, serde=serde, messages=store)


def test_the_writes_of_many_tasks_are_read_in_few_calls(
    memory: SyncLongTermMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = JazzmineSaver(memory)
    at = put(saver, THREAD, 1)
    for number in range(300):
        saver.put_writes(at, [("a", number)], f"{number:03}")
    calls = []
    read = memory.list_items

    def read_and_count(*args: Any, **named: Any) -> Any:
        calls.append(named["limit"])
        return read(*args, **named)

    monkeypatch.setattr(memory, "list_items", read_and_count)
    found = saver.get_tuple(THREAD)

    assert found is not None
    assert found.pending_writes == [(f"{number:03}", "a", number) for number in range(300)]
    assert len(calls) == 3


def test_a_checkpoint_that_is_deleted_meanwhile_takes_no_other_one_with_it(
    memory: SyncLongTermMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = JazzmineSaver(memory)
    older = put(saver, THREAD, "older")
    newer = checkpoint({"c": 2}, {"c": "newer"})
    saver.put(older, newer, {"source": "loop", "step": 2, "run_id": "r1"}, {"c": 2})  # type: ignore[typeddict-unknown-key]
    read = memory.list_items

    def delete_and_read(*given: Any, **named: Any) -> Any:
        found = read(*given, **named)
        if named.get("where"):
            [item] = found
            memory.delete(item.namespace, item.key)
        return found

    monkeypatch.setattr(memory, "list_items", delete_and_read)
    saver.delete_for_runs(["r1"])

    assert value_at(saver, THREAD) == "older"


def test_a_reader_never_gets_a_checkpoint_without_values_that_are_being_pruned(
    memory: SyncLongTermMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = JazzmineSaver(memory)
    at = put(saver, THREAD, ["first"])
    read_many = memory.get_many

    def prune_first(keys: Any) -> Any:
        monkeypatch.setattr(memory, "get_many", read_many)
        put(saver, at, ["second"], 2)
        saver.prune(["t1"])
        return read_many(keys)

    reader = JazzmineSaver(memory)
    monkeypatch.setattr(memory, "get_many", prune_first)
    assert value_at(reader, THREAD) == ["second"]
