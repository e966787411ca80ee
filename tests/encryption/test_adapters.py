"""What agent frameworks keep in encrypted stores comes back, and no word of it is readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine.core import MessageStore
from jazzmine.sync import LongTermMemoryStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.frameworks import missing
from tests.behaviour.backends import Config
from tests.behaviour.stored import everything
from tests.encryption.keys import FIRST, WORD, forms, keyring


def needs(framework: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(bool(missing(framework)), reason=missing(framework))


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = str(tmp_path / "agent.db")
    return {"storage": "sqlite", "path": path, "encryption": keyring(FIRST)}


def is_readable(config: Config) -> bool:
    stored = everything(config)
    return any(form in stored for form in forms(WORD))


@needs("openai_agents")
async def test_a_session_of_openai_agents(config: Config) -> None:
    from jazzmine.adapters.openai_agents import JazzmineSession

    items: list[Any] = [
        {"role": "user", "content": WORD},
        {"type": "function_call", "name": "look", "arguments": WORD, "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": WORD},
    ]
    async with await MessageStore.initialize(config) as store:
        session = JazzmineSession(store, "s1", user_id="ada", agent_id="desk")
        await session.add_items(items)

        assert await session.get_items() == items
        assert not is_readable(config)
        assert await session.pop_item() == items[-1]


@needs("langgraph")
def test_checkpoints_and_values_of_langgraph(config: Config) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    from jazzmine.adapters.langgraph import JazzmineSaver, JazzmineStore

    thread: Any = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}
    values: Any = {"channel_versions": {"c": 1}, "channel_values": {"c": [WORD]}}
    with LongTermMemoryStore.initialize(config) as items:
        saver, store = JazzmineSaver(items), JazzmineStore(items)
        made = saver.put(thread, {**empty_checkpoint(), **values}, {"source": "input"}, {"c": 1})
        saver.put_writes(made, [("c", WORD)], "task")
        store.put(("facts", "ada"), "k", {"text": WORD, "kind": 1})

        found = saver.get_tuple(thread)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"c": [WORD]}
        assert found.pending_writes == [("task", "c", WORD)]
        [hit] = store.search(("facts",), query=WORD, filter={"kind": 1})
        assert hit.value == {"text": WORD, "kind": 1}
        assert not is_readable(config)

        saver.put(thread, {**empty_checkpoint(), **values}, {"run_id": "r1"}, {"c": 1})
        saver.delete_for_runs(["r1"])
        assert [one.metadata["source"] for one in saver.list(thread)] == ["input"]


@needs("strands")
def test_sessions_of_strands(config: Config) -> None:
    from strands.types.session import Session, SessionAgent, SessionType

    from jazzmine.adapters.strands import JazzmineSessionRepository

    with SyncMessageStore.initialize(config) as store:
        sessions = JazzmineSessionRepository(store, user_id="ada", agent_id="desk")
        for session_id in ("s1", "s2"):
            sessions.create_session(Session(session_id, SessionType.AGENT))
            sessions.create_agent(session_id, SessionAgent("guide", {"plan": WORD}, {}))
        assert not is_readable(config)

        sessions.delete_session("s1")

        assert sessions.read_session("s1") is None
        assert sessions.read_agent("s1", "guide") is None
        agent = sessions.read_agent("s2", "guide")
    assert agent is not None
    assert agent.state == {"plan": WORD}
