"""Working memory in PostgreSQL is opened only in tables of its own, with the rights to use them."""

from __future__ import annotations

import os

import pytest

from jazzmine.errors import ConfigurationError
from tests.backends.memory_tables import open_sync
from tests.servers import postgres


@pytest.mark.parametrize(
    ("what", "right"),
    [
        ("working_memory", "SELECT"),
        ("working_memory", "INSERT"),
        ("working_memory", "UPDATE"),
        ("working_memory", "DELETE"),
        ("jazzmine_memory_migrations", "SELECT"),
    ],
)
def test_a_missing_right_is_named_when_a_store_is_opened(
    schema: str, what: str, right: str
) -> None:
    config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}
    open_sync(config).close()
    role = f"jazzmine_reader_{os.getpid()}"
    with postgres.connect(postgres.dsn()) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pw'".encode())
        try:
            admin.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {role}'.encode())
            every = f'ALL TABLES IN SCHEMA "{schema}"'
            admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {every} TO {role}".encode())
            dsn = postgres.changed(postgres.dsn(), user=role, password="pw")
            with open_sync(config, dsn=dsn) as store:
                assert store.get_or_create("c", "user", "agent").revision == 1
            admin.execute(f'REVOKE {right} ON "{schema}".{what} FROM {role}'.encode())
            with pytest.raises(ConfigurationError, match=rf"{right}.*{what}|{what}"):
                open_sync(config, dsn=dsn)
        finally:
            admin.execute(f"DROP OWNED BY {role}".encode())
            admin.execute(f"DROP ROLE {role}".encode())


def test_a_table_of_another_application_is_left_alone() -> None:
    with postgres.new_schema() as schema:
        with postgres.connect(postgres.dsn()) as admin:
            admin.execute(f'CREATE SCHEMA "{schema}"'.encode())
            admin.execute(f'CREATE TABLE "{schema}".working_memory (mine int)'.encode())
        with pytest.raises(ConfigurationError, match="working_memory"):
            open_sync({"storage": "postgres", "dsn": postgres.dsn(), "schema": schema})
        with postgres.connect(postgres.dsn()) as admin:
            admin.execute(f'SELECT mine FROM "{schema}".working_memory'.encode())
