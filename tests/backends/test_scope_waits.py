"""A scoped store does not wait for what another user does: that would tell what is stored."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymongo
import pytest

from jazzmine import JazzmineError, MemoryItem, PutItem, StoreUnavailableError
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, message, trace
from tests.behaviour.scope_samples import ABOUT, CONVERSATIONS, MESSAGES, OTHERS, TRACES
from tests.servers import mongodb, postgres

# Far less than the other user's transaction lasts.
TIMEOUT = 3.0

TAKEN: dict[str, Callable[[MessageStore], object]] = {
    "store_conversation": lambda own: own.store_conversation(conversation("c2")),
    "get_or_create_conversation": lambda own: own.get_or_create_conversation(conversation("c2")),
    "fork_conversation": lambda own: own.fork_conversation("c1", conversation("c2")),
    "store_turn": lambda own: own.store_turn(
        conversation=conversation("c2"), messages=[message("new")]
    ),
    "store_turn_trace": lambda own: own.store_turn_trace(trace("m2", id="t3")),
    "append_messages": lambda own: own.append_messages("c1", [message("m3")]),
    "erase_user": lambda own: own.erase_user("u1"),
    "prune_conversations": lambda own: own.prune_conversations(before=2**53),
}
STORING_A_MESSAGE: dict[str, Callable[[MessageStore], object]] = {
    "store_message": lambda own: own.store_message(message("m3")),
    "store_messages": lambda own: own.store_messages([message("new"), message("m4")]),
}


def entangle(store: MessageStore) -> None:
    for record in CONVERSATIONS:
        store.store_conversation(record)
    store.store_messages(MESSAGES)
    for of_turn in TRACES:
        store.store_turn_trace(of_turn)


def call_all(own: MessageStore, taken: dict[str, Callable[[MessageStore], object]]) -> None:
    """Make calls about what the other user's transaction has changed; none may run out of time."""
    calls: list[Callable[[], object]] = [
        *(lambda call=call: call(own, OTHERS[0]) for call in ABOUT.values()),
        *(lambda call=call: call(own) for call in taken.values()),
        lambda: list(own.iter_messages("c2")),
    ]
    for call in calls:
        try:
            call()
        except StoreUnavailableError as error:
            raise AssertionError("a call has waited") from error
        except JazzmineError:
            pass


def test_a_transaction_of_another_user_is_not_waited_for_on_postgresql(schema: str) -> None:
    config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema, "timeout": TIMEOUT}
    with (
        MessageStore.initialize(config) as store,
        postgres.connect(postgres.dsn()) as other,
        other.transaction(),
    ):
        entangle(store)
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended('c2', 1784772461))")
        other.execute(f"UPDATE {schema}.conversations SET title = 'x' WHERE id = 'c2'")
        other.execute(f"UPDATE {schema}.messages SET intent = 'x' WHERE conversation_id = 'c2'")
        other.execute(f"UPDATE {schema}.turn_traces SET turn_number = 9 WHERE id IN ('t3', 't4')")

        call_all(store.scoped(user_id="u1"), {**TAKEN, **STORING_A_MESSAGE})

        with pytest.raises(StoreUnavailableError):
            store.scoped(user_id="u2").pop_message("c2")


def test_calls_of_another_user_that_wait_are_not_waited_for_on_postgresql(schema: str) -> None:
    config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema, "pool_max": 4}
    with (
        MessageStore.initialize({**config, "timeout": TIMEOUT}) as store,
        postgres.connect(postgres.dsn()) as other,
        ThreadPoolExecutor(8) as threads,
    ):
        entangle(store)
        with other.transaction():
            other.execute(f"UPDATE {schema}.conversations SET title = 'x' WHERE id = 'c2'")
            waiting = [threads.submit(store.pop_message, "c2") for _ in range(8)]

            assert store.scoped(user_id="u1").pop_message("c2") is None
            assert not any(call.done() for call in waiting)


def test_calls_of_another_user_that_wait_are_not_waited_for_on_mongodb() -> None:
    with mongodb.emptied_database() as config:
        client: Any = pymongo.MongoClient(str(config["uri"]))
        conversations = client[str(config["db"])].conversations
        with (
            client,
            MessageStore.initialize({**config, "timeout": TIMEOUT}) as store,
            client.start_session() as session,
            ThreadPoolExecutor(3) as threads,
        ):
            entangle(store)
            with session.start_transaction():
                conversations.update_one({"id": "c2"}, {"$set": {"title": "x"}}, session=session)
                waiting = [threads.submit(store.pop_message, "c2") for _ in range(3)]

                assert store.scoped(user_id="u1").pop_message("c2") is None
                assert not store.scoped(user_id="u1").delete_conversation("c2")
                assert not any(call.done() for call in waiting)
                session.abort_transaction()


def test_an_item_of_another_user_is_not_waited_for_on_postgresql(schema: str) -> None:
    config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema, "timeout": TIMEOUT}
    item = MemoryItem(namespace=("facts",), key="k", value={}, user_id="bob")
    with (
        LongTermMemoryStore.initialize(config) as store,
        postgres.connect(postgres.dsn()) as other,
        other.transaction(),
    ):
        store.put(item)
        other.execute(f"UPDATE {schema}.memory_items SET value = '{{}}'")

        own, mine = store.scoped(user_id="ann"), item.model_copy(update={"user_id": "ann"})
        assert own.delete(("facts",), "k") is False
        assert own.prune_expired() == 0
        for call in (
            lambda: own.put(mine),
            lambda: own.put(mine, expected_revision=1),
            lambda: own.apply([PutItem(mine), PutItem(mine.model_copy(update={"key": "l"}))]),
        ):
            with pytest.raises(JazzmineError) as caught:
                call()
            assert not isinstance(caught.value, StoreUnavailableError)


def test_a_transaction_of_another_user_is_not_waited_for_on_mongodb() -> None:
    with mongodb.emptied_database() as config:
        client: Any = pymongo.MongoClient(str(config["uri"]))
        database = client[str(config["db"])]
        with (
            client,
            MessageStore.initialize({**config, "timeout": TIMEOUT}) as store,
            client.start_session() as session,
        ):
            entangle(store)
            with session.start_transaction():
                change = {"$set": {"changed": 1}}
                database.conversations.update_one({"id": "c2"}, change, session=session)
                database.messages.update_many({"conversation_id": "c2"}, change, session=session)
                database.turn_traces.update_many({"conversation_id": "c2"}, change, session=session)

                call_all(store.scoped(user_id="u1"), TAKEN)
                session.abort_transaction()
