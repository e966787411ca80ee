"""Calls that were given up do not keep running on the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from jazzmine.errors import StoreUnavailableError
from tests.backends.postgres_apis import APIS, ROUTES, active, network, opened
from tests.backends.postgres_samples import bound, conversation
from tests.faults.sizes import LENIENCE


@contextmanager
def locked(admin: psycopg.Connection[Any], schema: str) -> Iterator[None]:
    """Lock the conversation for a block."""
    with admin.transaction():
        admin.execute(bound("SELECT FROM $schema.conversations FOR UPDATE", schema))
        yield


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("api", APIS)
async def test_abandoned_statements_do_not_pile_up_on_the_server(
    api: str, route: str, schema: str, admin: psycopg.Connection[Any]
) -> None:
    with network(route, schema, pool_min=1, pool_max=2, timeout=2.0) as (proxy, options):
        async with opened(api, options) as store:
            await store.store_conversation(conversation())
            with locked(admin, schema):
                for _ in range(2):
                    calls = [store.store_conversation(conversation()) for _ in range(4)]
                    outcomes = await asyncio.gather(*calls, return_exceptions=True)
                    assert {type(one) for one in outcomes} == {StoreUnavailableError}
                await active(admin, schema, 0)
            await asyncio.sleep(0.5)
            assert len(proxy.open) <= 2


async def test_the_server_ends_a_statement_whose_client_has_disappeared(
    schema: str, admin: psycopg.Connection[Any]
) -> None:
    timeout = 1.0 + LENIENCE
    with network("direct", schema, pool_min=1, pool_max=1, timeout=timeout) as (proxy, options):
        async with opened("async", options) as store:
            await store.store_conversation(conversation())
            with locked(admin, schema):
                call = asyncio.ensure_future(store.store_conversation(conversation()))
                await active(admin, schema, 1)
                # Neither the request to cancel nor the end of the connection arrives.
                proxy.hold()
                with pytest.raises(StoreUnavailableError):
                    await call
                await active(admin, schema, 0)
            proxy.cut()
