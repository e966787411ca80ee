"""On a server without transactions the same calls work, and the log says what may be left."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine.errors import ConflictError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, ids, messages, trace
from tests.servers import mongodb

Config = dict[str, Any]


@pytest.fixture
def config() -> Iterator[Config]:
    with mongodb.database(mongodb.running("--standalone").url) as configuration:
        yield configuration


@pytest.fixture
def store(config: Config) -> Iterator[MessageStore]:
    with MessageStore.initialize(config) as opened:
        yield opened


def test_a_standalone_server_is_named_once_in_the_log(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation())

    [said] = [one.message for one in caplog.records if "standalone" in one.message]
    assert "replica set of one server" in said


def test_the_calls_of_several_documents_work_and_refuse_as_with_transactions(
    store: MessageStore,
) -> None:
    store.store_turn(conversation=conversation(), messages=messages("m1"), trace=trace("m1"))
    store.append_messages("c1", messages("m2", "m3"), expected_last="m1")
    with pytest.raises(ConflictError):
        store.append_messages("c1", messages("m4"), expected_last="m1")
    store.append_messages("c1", messages("m2", "m3"), expected_last="m1")  # was done already
    new_ids = store.fork_conversation("c1", conversation("c2"))
    store.rewind_conversation("c1", after="m2")

    assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m2"]
    assert ids(store.get_messages_by_conversation_id("c2")) == list(new_ids.values())
    assert store.delete_conversation("c1")
    assert store.get_turn_traces_by_conversation_id("c1") == []
    assert store.erase_user("u1").messages == 3
