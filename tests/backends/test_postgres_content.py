"""What PostgreSQL tells about content beside the records: statistics and errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from jazzmine import MemoryItem
from jazzmine.errors import ConfigurationError, IntegrityError
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.backends.postgres_samples import bound, config, conversation, message, trace

NEW_SCHEMA = True  # the fixture `schema`

SECRET = "a xylophone"


def fill(schema: str) -> None:
    with MessageStore.initialize(config(schema, search=True)) as store:
        titled = conversation().model_copy(update={"title": SECRET, "metadata": {"k": SECRET}})
        store.store_conversation(titled)
        for number in range(20):
            said = message(f"m{number}").model_copy(update={"original_content": SECRET})
            store.store_message(said)
            of_turn = trace(f"m{number}").model_copy(update={"errors": [SECRET]})
            store.store_turn_trace(of_turn)
    with LongTermMemoryStore.initialize(config(schema)) as items:
        for number in range(20):
            items.put(MemoryItem(namespace=("n",), key=f"{number}", value={"text": SECRET}))
    with WorkingMemoryStore.initialize(config(schema)) as states:
        for number in range(20):
            states.get_or_create(f"c{number}", "u", "a")
            states.set_data(f"c{number}", text=SECRET)


def test_the_planner_knows_nothing_of_what_was_said(
    admin: psycopg.Connection[Any], schema: str
) -> None:
    fill(schema)
    admin.execute("ANALYZE")
    query = "SELECT * FROM pg_stats WHERE schemaname = %s"
    known = str(admin.execute(query, [schema]).fetchall())
    assert "xylophone" not in known
    assert SECRET.encode().hex() not in known


def test_a_constraint_of_the_application_is_an_integrity_error_that_prints_no_row(
    admin: psycopg.Connection[Any], schema: str
) -> None:
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
        admin.execute(bound("ALTER TABLE $schema.messages ADD CHECK (timestamp < 0)", schema))
        said = message().model_copy(update={"original_content": SECRET})
        for call in (store.store_message, lambda one: store.append_messages("c1", [one])):
            with pytest.raises(IntegrityError) as raised:
                call(said)
            assert isinstance(raised.value.__cause__, psycopg.errors.CheckViolation)
            assert SECRET not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("change", "named", "call"),
    [
        (
            "ALTER TABLE $schema.messages ADD FOREIGN KEY (user_id) REFERENCES $schema.users",
            "messages_user_id_fkey",
            lambda store: store.store_message(message("m2").model_copy(update={"user_id": "x"})),
        ),
        (
            "CREATE UNIQUE INDEX one_a_user ON $schema.messages (user_id)",
            "one_a_user",
            lambda store: store.store_message(message("m2")),
        ),
        (
            "CREATE TABLE $schema.stars AS SELECT id FROM $schema.messages;"
            " ALTER TABLE $schema.stars ADD FOREIGN KEY (id) REFERENCES $schema.messages",
            "stars_id_fkey",
            lambda store: store.delete_message("m1"),
        ),
    ],
)
def test_a_key_of_the_application_is_named(
    admin: psycopg.Connection[Any],
    schema: str,
    change: str,
    named: str,
    call: Callable[[MessageStore], object],
) -> None:
    with MessageStore.initialize(config(schema)) as store:
        store.store_turn(conversation=conversation(), messages=[message()])
        users = "CREATE TABLE $schema.users AS SELECT user_id FROM $schema.messages"
        admin.execute(bound(users, schema))
        admin.execute(bound("ALTER TABLE $schema.users ADD PRIMARY KEY (user_id)", schema))
        admin.execute(bound(change, schema))
        with pytest.raises(IntegrityError, match=f"{named}.*nothing was written"):
            call(store)


def test_a_trigger_of_the_application_that_refuses_a_row_is_an_integrity_error(
    admin: psycopg.Connection[Any], schema: str
) -> None:
    refusal = """
    CREATE FUNCTION $schema.refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN RAISE EXCEPTION 'over the quota'; END$$;
    CREATE TRIGGER refuse BEFORE INSERT ON $schema.messages EXECUTE FUNCTION $schema.refuse();
    """
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
        admin.execute(bound(refusal, schema))
        with pytest.raises(IntegrityError, match="over the quota; nothing was written"):
            store.store_message(message())


def test_a_column_of_the_application_that_a_fork_cannot_copy_is_named(
    admin: psycopg.Connection[Any], schema: str
) -> None:
    column = "ADD COLUMN mine text GENERATED ALWAYS AS (left(original_content, 3)) STORED"
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
        store.append_messages("c1", [message()])
        admin.execute(bound(f"ALTER TABLE $schema.messages {column}", schema))
        with pytest.raises(ConfigurationError, match="mine"):
            store.fork_conversation("c1", conversation("c2"))
