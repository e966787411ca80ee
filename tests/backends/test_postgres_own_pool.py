"""A pool that the application brings, and the schema of the role's search path."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

import jazzmine.core.postgres
import jazzmine.sync.postgres
from jazzmine.errors import (
    ConfigurationError,
    ConflictError,
    StoreClosedError,
    StoreUnavailableError,
)
from jazzmine.records.types import MAX_INT
from jazzmine.sync import MessageStore
from tests.backends.postgres_apis import APIS, MESSAGES, opened
from tests.backends.postgres_samples import bound, config, conversation, message, trace
from tests.servers import postgres


@asynccontextmanager
async def pool_of(api: str, **options: Any) -> AsyncIterator[Any]:
    if api == "async":
        options = {"connection_class": jazzmine.core.postgres.Connection, **options}
        async with AsyncConnectionPool(postgres.dsn(), open=False, **options) as pool:
            yield pool
    else:
        options = {"connection_class": jazzmine.sync.postgres.Connection, **options}
        with ConnectionPool(postgres.dsn(), open=False, **options) as pool:
            yield pool


ROWS = {"autocommit": True, "row_factory": dict_row}


@pytest.mark.parametrize("api", APIS)
async def test_a_store_uses_the_pool_of_the_application_and_leaves_it_open(
    api: str, schema: str
) -> None:
    # As behind a pooler that does not know prepared statements.
    cursors = {"async": psycopg.AsyncClientCursor, "sync": psycopg.ClientCursor}
    own = {**ROWS, "cursor_factory": cursors[api]}
    async with pool_of(api, kwargs=own, min_size=1, max_size=1) as pool:
        before = pool.get_stats().get("requests_num", 0)
        async with opened(api, config(schema, pool=pool)) as store:
            await store.store_conversation(conversation())
            await store.append_messages("c1", [message("m1")], trace=trace("m1"))
            [stored] = await store.get_immediate_context("c1", 5)
            assert stored == message("m1")
        assert pool.get_stats()["requests_num"] >= before + 3
        query = bound("SELECT id FROM $schema.messages WHERE timestamp >= %s", schema)
        if api == "async":
            async with pool.connection() as connection:
                rows = await (await connection.execute(query, [0])).fetchall()
        else:
            with pool.connection() as connection:
                rows = connection.execute(query, [0]).fetchall()
        assert rows == [{"id": "m1"}]


@pytest.mark.parametrize("api", APIS)
async def test_a_call_on_the_pool_of_the_application_ends_at_its_deadline(
    api: str, schema: str, admin: psycopg.Connection[Any]
) -> None:
    async with (
        pool_of(api, kwargs=ROWS, min_size=1, max_size=1) as pool,
        opened(api, config(schema, pool=pool, timeout=1.0)) as store,
    ):
        await store.store_conversation(conversation())
        with admin.transaction():
            admin.execute(bound("LOCK TABLE $schema.messages", schema))
            with pytest.raises(StoreUnavailableError):
                await store.store_message(message("m1"))
        await store.store_message(message("m2"))


@pytest.mark.parametrize("level", [r"repeatable\ read", "serializable"])
@pytest.mark.parametrize("api", APIS)
async def test_one_of_several_appends_wins_at_any_isolation(
    api: str, level: str, schema: str, admin: psycopg.Connection[Any]
) -> None:
    kwargs = {**ROWS, "options": f"-c default_transaction_isolation={level}"}
    async with (
        pool_of(api, kwargs=kwargs, min_size=4, max_size=4) as pool,
        opened(api, config(schema, pool=pool)) as store,
    ):
        # Nothing raises its time.
        one = conversation().model_copy(update={"last_updated_at": MAX_INT})
        await store.store_conversation(one)
        last = None
        for number in range(20):
            given = [message(f"{number} {n}") for n in range(4)]
            appends = (store.append_messages("c1", [one], expected_last=last) for one in given)
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
            [[appended]] = [one for one in outcomes if isinstance(one, list)]
            assert sum(isinstance(one, ConflictError) for one in outcomes) == 3
            last = appended.id
        # It waits for a pop of the message that it expects.
        pop = (
            "SELECT $schema.jazzmine_pop('c1', id, xmin::text) FROM $schema.messages WHERE id = %s"
        )
        with admin.transaction():
            assert admin.execute(bound(pop, schema), [last]).fetchone() == (True,)
            late = asyncio.ensure_future(
                store.append_messages("c1", [message("late")], expected_last=last)
            )
            await asyncio.sleep(0.3)
        with pytest.raises(ConflictError):
            await late


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"connection_class": psycopg.AsyncConnection, "kwargs": ROWS}, "another connection_class"),
        ({}, "no autocommit"),
    ],
)
async def test_a_pool_of_other_connections_is_refused(
    schema: str, options: dict[str, Any], said: str
) -> None:
    async with pool_of("async", **options) as pool:
        with pytest.raises(ConfigurationError, match=said):
            async with opened("async", config(schema, pool=pool)):
                pass


@pytest.mark.parametrize("api", APIS)
async def test_what_is_no_pool_is_refused_by_the_name_of_its_key(api: str, schema: str) -> None:
    with pytest.raises(ConfigurationError, match="pool has another connection_class"):
        async with opened(api, config(schema, pool=postgres.dsn())):
            pass


async def test_a_pool_that_is_not_open_is_refused(schema: str) -> None:
    async with pool_of("async", kwargs=ROWS) as pool:
        pass
    with pytest.raises(StoreClosedError, match="not open"):
        async with opened("async", config(schema, pool=pool)):
            pass


@pytest.mark.parametrize("api", APIS)
async def test_the_only_way_to_the_server_may_be_the_pool_of_the_application(
    api: str, schema: str
) -> None:
    # Its address may have a password that has expired, such as a token of a cloud's.
    expired = postgres.changed(postgres.dsn(), password="expired")
    async with (
        pool_of(api, kwargs=ROWS, min_size=1, max_size=1) as pool,
        opened(api, config(schema, dsn=expired, pool=pool)) as store,
    ):
        await store.store_conversation(conversation())
        assert await store.get_conversation_by_id("c1") == conversation()


def test_a_forked_process_does_not_use_the_pool_of_its_parent(schema: str) -> None:
    with ConnectionPool(
        postgres.dsn(), connection_class=jazzmine.sync.postgres.Connection, kwargs=ROWS
    ) as pool:
        store = MessageStore.initialize(config(schema, pool=pool))
        child = os.fork()
        if not child:  # every end of the child is here
            status = 1
            try:
                store.ping()
            except ConfigurationError as error:
                status = 0 if "forked process" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        store.ping()
        store.close()


async def test_a_statement_of_the_application_that_is_cancelled_is_ended_by_the_server(
    schema: str, admin: psycopg.Connection[Any]
) -> None:
    async with (
        pool_of("async", kwargs=ROWS, min_size=1, max_size=1) as pool,
        opened("async", config(schema, pool=pool)),
        pool.connection() as connection,
    ):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await connection.execute("SELECT pg_sleep(20)")
        pid = [connection.info.backend_pid]
        state = admin.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", pid).fetchone()
        assert state == ("idle",)
        await connection.execute("SELECT 1")


async def test_cancelled_calls_leave_all_connections_in_the_pool(schema: str) -> None:
    async with (
        pool_of("async", kwargs=ROWS, min_size=2, max_size=2) as pool,
        opened("async", config(schema, pool=pool, timeout=5.0)) as store,
    ):

        async def client(number: int) -> None:
            for moment in range(100):
                call = asyncio.create_task(store.ping())
                await asyncio.sleep((moment + number) % 20 * 2e-4)
                is_cancelled = call.cancel()
                await asyncio.wait([call])
                assert call.cancelled() is is_cancelled

        await asyncio.gather(*map(client, range(20)))
        await store.ping()
        for _ in range(100):
            stats = pool.get_stats()
            if stats["pool_available"] == stats["pool_size"]:
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail(f"lost connections: {stats}")


async def test_a_close_that_is_cancelled_closes_all_connections(
    schema: str, admin: psycopg.Connection[Any]
) -> None:
    name = f"closed-{schema}"
    dsn = postgres.changed(postgres.dsn(), application_name=name)
    stores = []
    for moment in range(20):
        store: Any = await MESSAGES["async"].initialize(config(schema, dsn=dsn))
        stores.append(store)
        calls = [asyncio.create_task(store.ping()) for _ in range(5)]
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(moment * 1e-4)
        closing.cancel()
        await asyncio.wait([closing, *calls])
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    assert admin.execute(left, [name]).fetchone() == (0,)


# The search path


@pytest.fixture
def other() -> Iterator[str]:
    with postgres.new_schema() as name:
        yield name


def test_without_a_schema_the_first_one_of_the_search_path_is_meant(
    schema: str, other: str, admin: psycopg.Connection[Any]
) -> None:
    for name in (schema, other):
        admin.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"'.encode())
        dsn = postgres.changed(postgres.dsn(), options=f"-c search_path={uuid4().hex},{name}")
        with MessageStore.initialize({"storage": "postgres", "dsn": dsn}) as store:
            store.store_conversation(conversation())
            store.append_messages("c1", [message(f"m of {name}")])
    for name in (schema, other):
        rows = admin.execute(bound("SELECT id FROM $schema.messages", name)).fetchall()
        assert rows == [(f"m of {name}",)]


def test_a_search_path_without_a_schema_is_refused() -> None:
    dsn = postgres.changed(postgres.dsn(), options=f"-c search_path={uuid4().hex}")
    with pytest.raises(ConfigurationError, match="'schema'"):
        MessageStore.initialize({"storage": "postgres", "dsn": dsn})
