"""Working memory in PostgreSQL is opened only in tables of its own, with the rights to use them."""

from __future__ import annotations

import pytest

from jazzmine.errors import ConfigurationError
from tests.backends.memory_tables import open_sync
from tests.servers import postgres


def test_a_table_of_another_application_is_left_alone() -> None:
    with postgres.new_schema() as schema:
        with postgres.connect(postgres.dsn()) as admin:
            admin.execute(f'CREATE SCHEMA "{schema}"'.encode())
            admin.execute(f'CREATE TABLE "{schema}".working_memory (mine int)'.encode())
        with pytest.raises(ConfigurationError, match="working_memory"):
            open_sync({"storage": "postgres", "dsn": postgres.dsn(), "schema": schema})
        with postgres.connect(postgres.dsn()) as admin:
            admin.execute(f'SELECT mine FROM "{schema}".working_memory'.encode())
