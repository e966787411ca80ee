"""The commands of the MongoDB store: their number and their concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jazzmine.sync.message_store import MessageStore, TraceFilter
from tests.backends.mongodb_commands import Commands
from tests.behaviour.samples import conversation, message, messages, trace

Config = dict[str, Any]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(monkeypatch)


@pytest.fixture
def store(mongodb_config: Config, commands: Commands) -> Iterator[MessageStore]:
    """A store that knows the conversation "c1" with the messages "m1" (trace "t1") and "m2"."""
    with MessageStore.initialize(mongodb_config) as opened:
        opened.store_conversation(conversation())
        opened.store_messages(messages("m1", "m2"))
        opened.store_turn_trace(trace("m1", id="t1"))
        commands.clear()
        yield opened


SINGLE: dict[str, Callable[[Any], Any]] = {
    "store_conversation": lambda store: store.store_conversation(conversation()),
    "get_conversation_by_id": lambda store: store.get_conversation_by_id("c1"),
    "store_message, new": lambda store: store.store_message(message("new")),
    "store_message, known": lambda store: store.store_message(message("m1")),
    "store_messages, one": lambda store: store.store_messages([message("m1")]),
    "get_conversations": lambda store: store.get_conversations(where={"k": 1}),
    "get_message_by_id": lambda store: store.get_message_by_id("m1"),
    "get_messages_by_ids": lambda store: store.get_messages_by_ids(["m1", "m2"]),
    "get_messages_by_conversation_id": lambda store: store.get_messages_by_conversation_id("c1"),
    "get_immediate_context": lambda store: store.get_immediate_context("c1", 1),
    "get_context_window": lambda store: store.get_context_window("c1", max_tokens=9),
    "get_or_create_conversation": lambda store: store.get_or_create_conversation(conversation()),
    "flag_message": lambda store: store.flag_message("m1"),
    "get_turn_trace_by_id": lambda store: store.get_turn_trace_by_id("t1"),
    "get_turn_trace_by_message_id": lambda store: store.get_turn_trace_by_message_id("m1"),
    "find_turn_traces": lambda store: store.find_turn_traces(TraceFilter()),
    "summarize_usage": lambda store: store.summarize_usage(TraceFilter(), by="model"),
    "ping": lambda store: store.ping(),
    "store_turn, conversation alone": lambda store: store.store_turn(conversation=conversation()),
    "store_turn, message alone": lambda store: store.store_turn(messages=[message("m1")]),
}


def test_a_call_for_a_known_conversation_is_one_command(
    store: MessageStore, commands: Commands
) -> None:
    sent = {}
    for name, call in SINGLE.items():
        commands.clear()
        call(store)
        sent[name] = len(commands.sent)

    assert sent == dict.fromkeys(SINGLE, 1)


def test_the_number_of_known_conversations_is_limited(
    store: MessageStore, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jazzmine._sync.message_store.mongodb_backend._MOST_KNOWN", 0)
    own = message("of-c2", conversation_id="c2")
    store.store_turn(conversation=conversation("c2"), messages=[own])
    commands.clear()

    store.store_message(own)
    assert len(commands.sent) == 1
    store.store_message(message("m1"))
    assert len(commands.sent) > 2


LOG_CALLS: dict[str, tuple[Callable[[MessageStore], object], list[str]]] = {
    "append_messages": (
        lambda store: store.append_messages("c1", messages("a", "b"), expected_last="m2"),
        ["find", "update", "insert", "commitTransaction"],
    ),
    "append_messages, a turn": (
        lambda store: store.append_messages("c1", messages("a", "b"), trace=trace("b")),
        ["find", "update", "insert", "insert", "commitTransaction"],
    ),
    "append_messages, regenerated": (
        lambda store: store.append_messages("c1", [message("a")], replace_after="m1"),
        ["find", "find", "update", "find", *["insert", "delete", "delete", "commitTransaction"]],
    ),
    "pop_message": (
        lambda store: store.pop_message("c1"),
        ["update", "find", "delete", "delete", "commitTransaction"],
    ),
    "rewind_conversation": (
        lambda store: store.rewind_conversation("c1", after=None),
        ["update", "find", "delete", "delete", "commitTransaction"],
    ),
    "fork_conversation": (
        lambda store: store.fork_conversation("c1", conversation("c2")),
        ["find", "find", "find", *["insert", "insert", "find", "insert", "commitTransaction"]],
    ),
}


@pytest.mark.parametrize(("call", "expected"), LOG_CALLS.values(), ids=LOG_CALLS)
def test_a_change_of_a_log_is_one_transaction(
    store: MessageStore,
    commands: Commands,
    call: Callable[[MessageStore], object],
    expected: list[str],
) -> None:
    call(store)

    assert commands.sent == expected
    assert len({body["txnNumber"] for body in commands.bodies}) == 1


def test_writes_are_acknowledged_by_a_majority_and_journaled(
    store: MessageStore, commands: Commands
) -> None:
    store.store_message(message("m1"))
    store.store_messages(messages("m1", "m2"))

    single, *_, commit = commands.bodies
    assert single["writeConcern"] == {"w": "majority", "j": True}
    assert commit["writeConcern"] == {"w": "majority", "j": True}
