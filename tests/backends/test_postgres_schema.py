"""Migrations: concurrent ones, other schemas, newer schemas, and those of jazzmine 0.1."""

from __future__ import annotations

import pytest

from jazzmine.backends.postgres.schema import migrations
from jazzmine.errors import ConfigurationError
from jazzmine.sync import MessageStore
from tests.backends.postgres_samples import config, conversation
from tests.servers import postgres

NEW_SCHEMA = True  # the fixture `schema`


def open_store(schema: str, **options: object) -> MessageStore:
    return MessageStore.initialize(config(schema, **options))


def test_a_schema_newer_than_the_library_is_refused(schema: str) -> None:
    open_store(schema).close()
    with postgres.connect(postgres.dsn()) as connection:
        newer = f"INSERT INTO \"{schema}\".jazzmine_migrations VALUES (99, 'from the future')"
        connection.execute(newer.encode())
    with pytest.raises(ConfigurationError, match=r"version 99.*upgrade"):
        open_store(schema)


def test_a_schema_may_have_any_name_without_quotes() -> None:
    name = "jazzmine_test Straße; DROP"
    try:
        with open_store(name) as store:
            store.store_conversation(conversation("c1"))
            assert store.get_conversation_by_id("c1") == conversation("c1")
    finally:
        with postgres.connect(postgres.dsn()) as connection:
            connection.execute(f'DROP SCHEMA "{name}" CASCADE'.encode())


def test_a_migration_that_fails_changes_nothing(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = migrations()[0]
    broken = (first, first._replace(version=2, sql="CREATE TABLE $schema.half (); SELECT 1 / 0"))
    with monkeypatch.context() as patch:
        patch.setattr("jazzmine._sync.clients.postgres.migration.migrations", lambda _: broken)
        with pytest.raises(Exception, match="division by zero"):
            open_store(schema)
    with postgres.connect(postgres.dsn()) as connection:
        assert connection.execute("SELECT to_regnamespace(%s)", [schema]).fetchone() == (None,)
    open_store(schema).close()


def test_a_database_in_another_encoding_is_refused() -> None:
    with postgres.connect(postgres.dsn()) as connection:
        connection.execute("DROP DATABASE IF EXISTS jazzmine_test_latin1")
        connection.execute(
            "CREATE DATABASE jazzmine_test_latin1 ENCODING 'LATIN1' TEMPLATE template0"
            " LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    try:
        with pytest.raises(ConfigurationError, match="LATIN1"):
            open_store(
                "public", dsn=postgres.changed(postgres.dsn(), dbname="jazzmine_test_latin1")
            )
    finally:
        with postgres.connect(postgres.dsn()) as connection:
            connection.execute("DROP DATABASE jazzmine_test_latin1 WITH (FORCE)")
