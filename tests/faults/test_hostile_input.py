"""Unusual text in every field and id is returned unchanged, or refused by every store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.rows import Row
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.calls import AFTER, WITH_AN_ID
from tests.behaviour.edge_values import TEXTS
from tests.behaviour.samples import conversation, full_message, full_trace, message
from tests.faults.sizes import report
from tests.faults.test_threads_and_forks import MEMORIES, MESSAGE_STORES, config_of

IDS = [text for text in TEXTS if len(text) < 2_000]
LARGE = "é" * 5_000_000  # 10 MB
REFUSED = ["\ud800", "a\udfff"]
OPERATORS: list[Any] = [{"$ne": None}, {"$where": "1"}, ["c1"], b"c1", 1, None]


def round_trip(store: MessageStore, text: str, id: str) -> None:
    """Store the text in every field under an id, and fail unless it is returned unchanged."""
    stored = conversation(
        id, user_id=id, agent_id=id, title=text, metadata={"text": text, "deep": [{"er": text}]}
    )
    said = full_message(id, text, conversation_id=id, user_id=id)
    trace = full_trace(id, text, id=id, conversation_id=id, user_id=id, agent_id=id)
    store.store_turn(conversation=stored, messages=[said], trace=trace)
    assert store.get_conversation_by_id(id) == stored
    assert store.get_conversations_by_user_id(id) == [stored]
    assert store.get_conversations_by_agent_id(id) == [stored]
    assert store.get_message_by_id(id) == said
    assert store.get_messages_by_ids([id]) == [said]
    assert store.get_messages_by_conversation_id(id) == [said]
    assert store.get_messages_by_user_id(id) == [said]
    assert store.get_turn_trace_by_id(id) == trace
    assert store.get_turn_trace_by_message_id(id) == trace
    assert store.get_turn_traces_by_agent_id(id) == [trace]


@contextmanager
def opened(name: str, folder: Path) -> Iterator[MessageStore]:
    with ExitStack() as stack:
        config = stack.enter_context(config_of(name, folder))
        yield stack.enter_context(MessageStore.initialize(config))


@pytest.mark.parametrize("name", MESSAGE_STORES)
def test_unusual_text_comes_back_as_it_was_from_every_field_and_id(
    name: str, tmp_path: Path
) -> None:
    with opened(name, tmp_path) as store:
        for text in IDS:
            round_trip(store, text, text)
        for number, text in enumerate([*TEXTS, LARGE]):
            # In a field without an index; MongoDB accepts 16 MiB for a record.
            said = message(f"large {number}", conversation_id=IDS[0], original_content=text)
            store.store_message(said)
            assert store.get_message_by_id(said.id) == said
        assert len(store.get_conversations_by_user_id("u1")) == 0
        for text in IDS:
            assert store.delete_conversation(text)
            assert store.get_message_by_id(text) is None
    report(f"hostile input, {name}: {len(IDS)} texts in every field and id, and one of 10 MB")


@pytest.mark.parametrize("name", MEMORIES)
def test_unusual_text_comes_back_from_a_working_memory(name: str, tmp_path: Path) -> None:
    with config_of(name, tmp_path) as config, WorkingMemoryStore.initialize(config) as store:
        for text in IDS:
            store.get_or_create(text, text, text)
            store.end_turn(text, text, text)
        for text in IDS:
            found = store.get(text)
            assert found is not None
            assert (found.conversation_id, found.user_id, found.agent_id) == (text, text, text)
            assert (found.last_agent_response, found.last_agent_intent) == (text, text)
        large = store.end_turn(IDS[0], LARGE, "intent")
        assert store.get(IDS[0]) == large
        assert store.active_count() == len(IDS)


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("name", MESSAGE_STORES)
def test_a_lone_surrogate_is_refused_as_any_id(name: str, text: str, tmp_path: Path) -> None:
    with opened(name, tmp_path) as store:
        store.store_conversation(conversation("c1"))
        for call in (*WITH_AN_ID.values(), *AFTER.values()):
            with pytest.raises(ValidationError, match="unicode string"):
                call(store, text)


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("name", MEMORIES)
def test_a_lone_surrogate_is_refused_by_a_working_memory(
    name: str, text: str, tmp_path: Path
) -> None:
    with config_of(name, tmp_path) as config, WorkingMemoryStore.initialize(config) as store:
        store.get_or_create("c1", "u1", "a1")
        calls: list[Callable[[], Any]] = [
            lambda: store.get(text),
            lambda: store.delete(text),
            lambda: store.get_or_create(text, "u1", "a1"),
            lambda: store.get_or_create("c1", text, "a1"),
            lambda: store.get_or_create("c1", "u1", text),
            lambda: store.end_turn("c1", text, "intent"),
        ]
        for call in calls:
            with pytest.raises(ValidationError, match="unicode string"):
                call()


@pytest.mark.parametrize("name", MESSAGE_STORES)
def test_an_operator_never_reaches_a_query(name: str, tmp_path: Path) -> None:
    with opened(name, tmp_path) as store:
        store.store_conversation(conversation("c1"))
        for (method, call), value in itertools.product(WITH_AN_ID.items(), OPERATORS):
            if method == "prune_conversations" and value is None:
                continue  # there None is everybody
            with pytest.raises(TypeError):
                call(store, value)

        assert store.get_conversation_by_id("c1") is not None


def test_a_store_that_changes_its_input_is_detected(tmp_path: Path) -> None:
    with opened("json", tmp_path) as store:
        read = store.backend.get_message

        def read_and_trim(message_id: str) -> Row | None:
            row = read(message_id)
            return None if row is None else (row[0], row[1].replace(rb"\u0000", b""))

        vars(store.backend)["get_message"] = read_and_trim

        with pytest.raises(AssertionError):
            round_trip(store, "\0", "c1")
