"""The tables of jazzmine 0.1.42 are migrated with all of their data."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

from benchmarks.frame import environments
from jazzmine.errors import IntegrityError
from jazzmine.records.base import Record
from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter
from jazzmine.sync import MessageStore
from tests.servers import postgres

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def schema() -> Iterator[str]:
    with postgres.new_schema() as name:
        with postgres.connect(postgres.dsn()) as connection:
            connection.execute(f'CREATE SCHEMA "{name}"'.encode())
        yield name


@pytest.fixture
def old(schema: str) -> dict[str, Any]:
    """The records that 0.1.42 stored in the schema, as 0.1.42 itself read them."""
    environments.make_predecessor(f"pydantic=={pydantic.VERSION}")
    python = environments.python_of(environments.PREDECESSOR)
    source = str(environments.PREDECESSOR_SOURCE)
    command = [str(python), "-m", "tests.backends.predecessor", source]
    dsn = f"{postgres.dsn()}?search_path={schema}"
    said = subprocess.run([*command, dsn], cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


@pytest.fixture
def store(schema: str, old: dict[str, Any]) -> Iterator[MessageStore]:
    config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}
    with MessageStore.initialize(config) as opened:
        yield opened


def new_message(message_id: str) -> Message:
    return Message(
        id=message_id,
        conversation_id="c1",
        user_id="u",
        role=MessageRole.USER,
        original_content="\0",
        timestamp=5,
        episode_id=2**40,
        metadata={"new": "\0"},
    )


def by_id(records: list[Any]) -> dict[str, Any]:
    return {record["id"]: record for record in records}


def test_a_database_of_jazzmine_0_1_is_adopted(store: MessageStore, old: dict[str, Any]) -> None:
    def plain(records: list[Any]) -> dict[str, Any]:
        return by_id([record.model_dump(mode="json") for record in records])

    def with_defaults(kind: type[Record], records: list[Any]) -> dict[str, Any]:
        return plain([kind.model_validate_json(json.dumps(one)) for one in records])

    conversations = store.get_conversations_by_user_id("u")
    assert plain(conversations) == with_defaults(Conversation, old["conversations"])
    messages = store.get_messages_by_user_id("u")
    assert plain(messages) == with_defaults(Message, old["messages"])
    traces = store.find_turn_traces(TraceFilter(agent_id="a"))
    assert plain(traces) == with_defaults(TurnTrace, old["traces"])

    # Equal times keep the order in which they were stored, and new records come after them.
    assert [one.id for one in conversations] == ["c3 \ufdd0", "c1", "c2"]
    store.store_message(new_message("m0"))
    held = [one.id for one in store.get_messages_by_conversation_id("c1")]
    assert held == ["m9", "m2", "m7", "m1", "m0"]
    assert [one.id for one in traces] == ["t odd \ufdd0", "t m1", "t m7"]
    assert store.get_message_by_id("m0") == new_message("m0")


def test_the_rules_hold_in_an_adopted_database(store: MessageStore) -> None:
    trace = store.get_turn_trace_by_message_id("m7")
    assert trace is not None
    with pytest.raises(IntegrityError, match="t m7"):
        store.store_turn_trace(trace.model_copy(update={"message_id": "m9"}))
    with pytest.raises(IntegrityError, match="nowhere"):
        store.store_turn_trace(trace.model_copy(update={"id": "t", "message_id": "nowhere"}))
    with pytest.raises(IntegrityError, match="nowhere"):
        store.store_message(new_message("m0").model_copy(update={"conversation_id": "nowhere"}))

    with pytest.raises(IntegrityError, match="nowhere"):
        store.store_turn_trace(trace.model_copy(update={"conversation_id": "nowhere"}))

    # Its numbers may be larger than in 0.1.
    elsewhere = trace.model_copy(update={"total_tokens": 2**40})
    store.store_turn_trace(elsewhere)
    assert store.get_turn_trace_by_message_id("m7") == elsewhere
    assert store.find_turn_traces(TraceFilter(tool={"sandbox": "s"}, min_total_tokens=13)) == [
        elsewhere
    ]

    odd = store.get_message_by_id("odd \ufdd0")
    assert odd is not None
    assert odd.conversation_id == "c3 \ufdd0"
    assert store.delete_conversation("c1")
    assert [one.id for one in store.find_turn_traces(TraceFilter())] == ["t odd \ufdd0"]
    assert store.delete_conversation("c3 \ufdd0")
    assert store.get_messages_by_user_id("u") == []
    store.store_conversation(
        Conversation(
            id="c1", user_id="u", agent_id="a", title="again", created_at=1, last_updated_at=7
        )
    )
    assert [one.id for one in store.get_conversations_by_user_id("u")] == ["c1", "c2"]
