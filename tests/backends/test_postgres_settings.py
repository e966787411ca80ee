"""Roles with other settings by default than a store needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from jazzmine.backends.postgres.schema import MESSAGE_TABLES
from jazzmine.cli.doctor_postgres import check_postgres
from jazzmine.config import PostgresConfig
from jazzmine.sync import MessageStore
from tests.backends.postgres_apis import APIS, opened
from tests.backends.postgres_samples import config, conversation, message
from tests.servers import pgbouncer, postgres

LEVELS = ("repeatable read", "serializable")


@pytest.fixture
def schema() -> Iterator[str]:
    with postgres.empty_schema() as name:
        MessageStore.initialize(config(name)).close()
        yield name


@pytest.fixture(params=LEVELS)
def role(request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"jazzmine_test_{uuid4().hex[:8]}"
    with postgres.connect(postgres.dsn()) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD 'word'".encode())
        default = f"ALTER ROLE {name} SET default_transaction_isolation = '{request.param}'"
        admin.execute(default.encode())
        yield name
        admin.execute(f"DROP ROLE {name}".encode())


def as_role(role: str, schema: str) -> dict[str, Any]:
    dsn = postgres.changed(postgres.dsn(), user=role, password="word")
    return config(schema, dsn=dsn, pool_min=1)


@pytest.mark.parametrize("api", APIS)
async def test_appends_of_two_stores_follow_one_another(role: str, schema: str, api: str) -> None:
    options = as_role(role, schema)
    async with opened(api, options) as one, opened(api, options) as other:
        await one.store_conversation(conversation())

        async def append(store: Any, name: str) -> None:
            for n in range(30):
                await store.append_messages("c1", [message(f"{name} {n}")])

        await asyncio.gather(append(one, "one"), append(other, "other"))
        assert len(await one.get_messages_by_conversation_id("c1")) == 60


@pytest.mark.skipif(bool(pgbouncer.MISSING), reason=pgbouncer.MISSING)
def test_the_doctor_finds_an_isolation_of_a_role_that_a_pooler_shares_sessions_of(
    role: str, schema: str
) -> None:
    with pgbouncer.in_front_of(as_role(role, schema)["dsn"]) as dsn:
        given = PostgresConfig(dsn=str(dsn), schema=schema, prepare=False)
        MessageStore.initialize(config(schema, dsn=dsn, prepare=False)).close()
        cures = [one.cure for one in check_postgres(given, MESSAGE_TABLES)]
        assert f"ALTER ROLE {role} SET default_transaction_isolation = 'read committed';" in cures
