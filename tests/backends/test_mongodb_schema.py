"""Opening a MongoDB store checks and creates indexes, and changes nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine import ConfigurationError
from jazzmine.backends.mongodb.indexes import MESSAGES, TRACES
from jazzmine.backends.mongodb.rights import require_rights
from jazzmine.sync.message_store import MessageStore
from tests.backends.mongodb_commands import Commands
from tests.servers import mongodb

Config = dict[str, Any]


@pytest.fixture
def config() -> Iterator[Config]:
    with mongodb.database() as configuration:
        yield configuration


def database(config: Config) -> Any:
    return mongodb.client(config["uri"])[config["db"]]


FOREIGN: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "not unique": (MESSAGES, [("id", 1)], {}),
    "partial": (
        MESSAGES,
        [("id", 1)],
        {"unique": True, "partialFilterExpression": {"id": {"$gt": "m"}}},
    ),
    "of other fields": (TRACES, [("tokens", 1)], {"name": "total_tokens_1"}),
    "that deletes documents": (TRACES, [("total_tokens", 1)], {"expireAfterSeconds": 60}),
    "that deletes documents, of another name": (
        TRACES,
        [("total_tokens", 1)],
        {"expireAfterSeconds": 60, "name": "expiry"},
    ),
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
def test_an_index_of_another_definition_is_refused_and_not_changed(
    config: Config, foreign: tuple[str, Any, dict[str, Any]]
) -> None:
    collection, keys, options = foreign
    name = database(config)[collection].create_index(keys, **options)
    before = database(config)[collection].index_information()

    with pytest.raises(ConfigurationError, match=f"{collection}.*{name}"):
        MessageStore.initialize(config)

    assert database(config)[collection].index_information() == before
    assert database(config).list_collection_names() == [collection]


def test_documents_of_another_application_are_refused_and_not_changed(config: Config) -> None:
    database(config)[MESSAGES].insert_many([{"subject": "Re: lunch"}, {"subject": "lunch"}])

    with pytest.raises(ConfigurationError, match=rf"{MESSAGES}.*`jazzmine adopt FROM TO`"):
        MessageStore.initialize(config)

    assert database(config).list_collection_names() == [MESSAGES]
    assert list(database(config)[MESSAGES].index_information()) == ["_id_"]


def test_indexes_have_their_own_deadline(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands(monkeypatch)

    MessageStore.initialize({**config, "timeout": 10, "migration_timeout": 500}).close()

    limits = {body["maxTimeMS"] for body in commands.bodies if "createIndexes" in body}
    assert limits
    assert all(400_000 < limit <= 500_000 for limit in limits)


def test_the_fields_that_are_stored_are_noted_once(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands(monkeypatch)
    for _ in range(2):
        MessageStore.initialize(config).close()

    [noted] = database(config)["jazzmine_fields"].find()
    assert {"messages.intent", "turn_traces.llm_calls.model"} <= set(noted["names"])
    assert commands.sent.count("update") == 1


def test_records_with_fields_of_a_newer_version_are_refused_and_not_changed(
    config: Config,
) -> None:
    MessageStore.initialize(config).close()
    newer = {"$addToSet": {"names": "messages.language"}}
    database(config)["jazzmine_fields"].update_one({}, newer)
    before = list(database(config)["jazzmine_fields"].find())

    with pytest.raises(ConfigurationError, match=r"newer version.*messages\.language"):
        MessageStore.initialize(config)

    assert list(database(config)["jazzmine_fields"].find()) == before


# The test server grants all rights to all users, and does not report them.


def status(*privileges: dict[str, Any]) -> dict[str, Any]:
    user = {"user": "app", "db": "admin"}
    found = {"authenticatedUsers": [user], "authenticatedUserPrivileges": list(privileges)}
    return {"authInfo": found}


def privilege(*actions: str, **resource: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": list(actions)}


ALL = ("find", "insert", "update", "remove", "createIndex")


def test_a_user_who_may_do_anything_lacks_no_right() -> None:
    anything = status(privilege("anyAction", anyResource=True))

    require_rights(anything, "chat", ["messages"], creates_indexes=True)


def test_a_right_that_is_missing_is_named_with_the_command_that_grants_it() -> None:
    reads = status(privilege("find", "listIndexes", db="chat", collection=""))

    with pytest.raises(
        ConfigurationError, match=r"'app' may not insert, remove, update.*readWrite"
    ):
        require_rights(reads, "chat", ["messages"], creates_indexes=False)
