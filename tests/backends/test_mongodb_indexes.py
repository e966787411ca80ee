"""Opening a MongoDB store creates indexes and changes nothing else; each query uses its index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine import ConfigurationError
from jazzmine.backends.mongodb.indexes import FORMAT, INDEXES, MESSAGES, TRACES
from jazzmine.backends.mongodb.queries import (
    CONVERSATIONS_BY,
    MESSAGES_BY,
    MESSAGES_OF_CONVERSATION,
    NEWEST_MESSAGES,
    OLDEST_CONVERSATIONS,
    TRACES_FOUND,
    TRACES_OF_CONVERSATION,
    Listing,
    equal,
    older_than,
    since,
    visible,
)
from jazzmine.backends.mongodb.trace_filters import filter_query
from jazzmine.sync.message_store import MessageStore, TraceFilter
from tests.backends.mongodb_commands import Commands
from tests.behaviour.samples import conversation, messages, trace
from tests.servers import mongodb

Config = dict[str, Any]


@pytest.fixture
def store(mongodb_config: Config) -> Iterator[MessageStore]:
    """A store with the conversation "c1" and its messages "m1" (trace "t1") and "m2"."""
    with MessageStore.initialize(mongodb_config) as opened:
        opened.store_conversation(conversation())
        opened.store_messages(messages("m1", "m2"))
        opened.store_turn_trace(trace("m1", id="t1"))
        yield opened


def database(mongodb_config: Config) -> Any:
    return mongodb.client(mongodb_config["uri"])[mongodb_config["db"]]


def test_a_collection_has_its_indexes(store: MessageStore, mongodb_config: Config) -> None:
    for name, expected in INDEXES.items():
        described = {
            (tuple(map(tuple, each["key"])), each.get("unique", False), each.get("sparse", False))
            for each in database(mongodb_config)[name].index_information().values()
        }
        assert described == {((("_id", 1),), False, False), *map(tuple, expected)}


def test_only_flagged_messages_hold_the_flag(store: MessageStore, mongodb_config: Config) -> None:
    store.flag_message("m1")
    store.flag_message("m2")
    store.flag_message("m2", False)

    holders = database(mongodb_config)[MESSAGES].find({"is_flagged": {"$exists": True}})

    assert [holder["id"] for holder in holders] == ["m1"]


FOREIGN: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "not unique": (MESSAGES, [("id", 1)], {}),
    "of other fields": (TRACES, [("tokens", 1)], {"name": "total_tokens_1"}),
    "that deletes documents": (TRACES, [("total_tokens", 1)], {"expireAfterSeconds": 60}),
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
def test_an_index_of_another_definition_is_refused_and_not_changed(
    mongodb_config: Config, foreign: tuple[str, Any, dict[str, Any]]
) -> None:
    name, keys, options = foreign
    collection = database(mongodb_config)[name]
    before = collection.create_index(keys, **options)
    index = collection.index_information()[before]

    with pytest.raises(ConfigurationError, match=f"{name}.*{before}"):
        MessageStore.initialize(mongodb_config)

    assert collection.index_information()[before] == index


def test_documents_of_another_application_are_refused_and_not_changed(
    mongodb_config: Config,
) -> None:
    database(mongodb_config)[MESSAGES].insert_many([{"subject": "Re: lunch"}, {"subject": "lunch"}])

    with pytest.raises(ConfigurationError, match=rf"{MESSAGES}.*`jazzmine adopt FROM TO`"):
        MessageStore.initialize(mongodb_config)

    assert database(mongodb_config).list_collection_names() == [MESSAGES]
    assert list(database(mongodb_config)[MESSAGES].index_information()) == ["_id_"]


def test_a_database_of_an_older_version_is_taken_over_and_of_a_newer_one_refused(
    mongodb_config: Config,
) -> None:
    notes = database(mongodb_config)["jazzmine_fields"]
    with MessageStore.initialize(mongodb_config) as store:
        store.store_conversation(conversation())
    notes.update_one({}, {"$unset": {"format": ""}})

    MessageStore.initialize(mongodb_config).close()

    [note] = notes.find()
    assert note["format"] == FORMAT
    notes.update_one({}, {"$set": {"format": FORMAT + 1}})
    with pytest.raises(ConfigurationError, match="newer version"):
        MessageStore.initialize(mongodb_config)


@pytest.mark.parametrize("command", ["delete", "listIndexes", "createIndexes"])
def test_a_right_that_is_missing_is_named_at_opening(mongodb_config: Config, command: str) -> None:
    mongodb.fail(mongodb_config["uri"], [command], {"times": 1}, errorCode=13)

    with pytest.raises(ConfigurationError, match=r"conversations.*failCommand.*role readWrite"):
        MessageStore.initialize(mongodb_config)


def test_indexes_are_made_once_and_have_their_own_deadline(
    mongodb_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands(monkeypatch)
    options = {"timeout": 10, "migration_timeout": 500}

    for _ in range(2):
        MessageStore.initialize({**mongodb_config, **options}).close()

    limits = [body["maxTimeMS"] for body in commands.bodies if "createIndexes" in body]
    assert len(limits) == len(INDEXES)
    assert all(400_000 < limit <= 500_000 for limit in limits)


PLACE = {"timestamp": 5, "_id": 1}

BY_USER, BY_AGENT = CONVERSATIONS_BY["user_id"], CONVERSATIONS_BY["agent_id"]

# The first field of the index that is used, the listing, and its query.
LISTINGS: list[tuple[str, Listing, dict[str, Any]]] = [
    ("user_id", BY_USER, BY_USER.of("u1")),
    ("agent_id", BY_AGENT, BY_AGENT.of("a1")),
    ("conversation_id", MESSAGES_OF_CONVERSATION, MESSAGES_OF_CONVERSATION.of("c1")),
    ("conversation_id", MESSAGES_OF_CONVERSATION, MESSAGES_OF_CONVERSATION.of("c1", PLACE)),
    ("user_id", MESSAGES_BY["user_id"], MESSAGES_BY["user_id"].of("u1")),
    ("conversation_id", NEWEST_MESSAGES, visible("c1", "none")),
    ("conversation_id", NEWEST_MESSAGES, visible("c1", "all")),
    ("conversation_id", NEWEST_MESSAGES, visible("c1", "calls")),
    ("conversation_id", NEWEST_MESSAGES, NEWEST_MESSAGES.after(visible("c1", "calls"), PLACE)),
    ("conversation_id", NEWEST_MESSAGES, NEWEST_MESSAGES.of("c1")),
    ("conversation_id", NEWEST_MESSAGES, since("c1", 5)),
    ("last_updated_at", OLDEST_CONVERSATIONS, older_than(5)),
    ("id", NEWEST_MESSAGES, equal(id="m1")),
    ("message_id", TRACES_FOUND, equal(message_id="m1")),
    ("conversation_id", TRACES_OF_CONVERSATION, TRACES_OF_CONVERSATION.of("c1")),
]
FILTERS: dict[str, TraceFilter] = {
    "agent_id": TraceFilter(agent_id="a1"),
    "user_id": TraceFilter(user_id="u1", started_from=1, started_until=9),
    "detected_intent": TraceFilter(intent="x"),
    "total_tokens": TraceFilter(min_total_tokens=5),
    "total_latency_ms": TraceFilter(min_latency_ms=5),
}
LISTINGS += [(field, TRACES_FOUND, filter_query(where)) for field, where in FILTERS.items()]


def test_a_query_uses_its_index(store: MessageStore, mongodb_config: Config) -> None:
    # The test server plans a sort even if the index has that order, so only the index is checked;
    # MongoDB reads the sorted page from the index. The test server also ignores an index if the
    # query has an explicit $eq (in MongoDB the same as the value alone) or a condition on another
    # field.
    # https://www.mongodb.com/docs/manual/tutorial/sort-results-with-indexes/
    # https://www.mongodb.com/docs/manual/reference/operator/query/eq/
    for first_field, order, query in LISTINGS:
        collection = database(mongodb_config)[order.collection]
        found = collection.find(_indexed_part(query)).sort(order.sort).limit(10)

        plan = found.explain()["queryPlanner"]["winningPlan"]

        assert first_field in {key for keys in _indexes_in(plan) for key in list(keys)[:1]}, query


def _indexed_part(query: dict[str, Any]) -> dict[str, Any]:
    return {
        field: wanted["$eq"] if isinstance(wanted, dict) and "$eq" in wanted else wanted
        for field, wanted in query.items()
        if field not in ("$or", "$nor", "is_flagged")
    }


def _indexes_in(plan: Any) -> Iterator[dict[str, int]]:
    if isinstance(plan, list):
        for part in plan:
            yield from _indexes_in(part)
    elif isinstance(plan, dict):
        if "keyPattern" in plan:
            yield plan["keyPattern"]
        yield from _indexes_in(list(plan.values()))
