"""Abandoned, cancelled and repeated calls take no late effect, and do not keep running."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from jazzmine.errors import StoreUnavailableError
from jazzmine.records.messages import Message
from tests.backends.postgres_apis import APIS, ROUTES, network, opened
from tests.backends.postgres_samples import config, conversation, message
from tests.faults.sizes import LENIENCE
from tests.servers import postgres

POOL_MAX = 2
OTHER = "another client"


def said(text: str, message_id: str = "m1") -> Message:
    return message(message_id).model_copy(update={"original_content": text})


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def locked(schema: str, table: str, record_id: str) -> Iterator[None]:
    """Lock a record with another client for a block."""
    with postgres.connect(postgres.dsn(), application_name=OTHER) as other, other.transaction():
        sql = f'SELECT FROM "{schema}".{table} WHERE id = %s FOR UPDATE'
        other.execute(sql.encode(), [record_id])
        yield


class Backends:
    """Counts the server processes whose statements name a schema; a context manager.

    Attributes:
        most: the largest number of them at a time that were running a statement. A loaded
            server needs some time to end those whose clients have closed the connection.
    """

    QUERY = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE query LIKE %s AND application_name <> %s AND state = 'active'"
    )

    def __init__(self, schema: str) -> None:
        self._ours = [f"%{schema}%", OTHER]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.most = 0

    def __enter__(self) -> Backends:
        self._connection = postgres.connect(postgres.dsn(), application_name=OTHER)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._connection.close()

    @property
    def active(self) -> int:
        """How many are running a statement."""
        found = self._connection.execute(self.QUERY.encode(), self._ours).fetchone()
        assert found is not None
        return int(found[0])

    def active_within(self, seconds: float) -> int:
        """Wait until none runs a statement, at most so many seconds; return how many do."""
        until = time.monotonic() + seconds
        while (active := self.active) and time.monotonic() < until:
            time.sleep(0.02)
        return active

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, self.active)


# Statements do not pile up


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("api", APIS)
async def test_abandoned_statements_do_not_pile_up_on_the_server(
    api: str, route: str, schema: str
) -> None:
    with network(route, schema, pool_min=1, pool_max=POOL_MAX, timeout=2.0) as (proxy, options):
        async with opened(api, options) as store:
            await store.store_conversation(conversation())
            with Backends(schema) as backends, locked(schema, "conversations", "c1"):
                for _ in range(2):
                    calls = [store.store_conversation(conversation()) for _ in range(4)]
                    outcomes = await asyncio.gather(*calls, return_exceptions=True)
                    assert {type(one) for one in outcomes} == {StoreUnavailableError}
                assert await asyncio.to_thread(backends.active_within, 1.5) == 0
            await asyncio.to_thread(wait_for, lambda: len(proxy.open) <= POOL_MAX)
    # Each may be replaced while it is being cancelled.
    assert 0 < backends.most <= 2 * POOL_MAX


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("api", APIS)
async def test_an_abandoned_write_does_not_take_effect_after_close(
    api: str, route: str, schema: str
) -> None:
    with network(route, schema, pool_max=POOL_MAX, timeout=2.0) as (_, options):
        async with opened(api, options) as store:
            await store.store_conversation(conversation())
            await store.store_message(said("first"))
            with locked(schema, "messages", "m1"):
                with pytest.raises(StoreUnavailableError):
                    await store.store_message(said("given up"))
                await store.close()
    await asyncio.sleep(0.2)
    async with opened(api, config(schema)) as store:
        assert await store.get_message_by_id("m1") == said("first")


async def test_the_server_ends_a_statement_whose_client_has_disappeared(
    schema: str,
) -> None:
    timeout = 1.0 + LENIENCE
    with network("direct", schema, pool_min=1, pool_max=1, timeout=timeout) as (proxy, options):
        async with opened("async", options) as store:
            await store.store_conversation(conversation())
            with Backends(schema) as backends, locked(schema, "conversations", "c1"):
                call = asyncio.ensure_future(store.store_conversation(conversation()))
                await asyncio.to_thread(wait_for, lambda: backends.active == 1)
                # Neither the request to cancel nor the end of the connection arrives.
                proxy.hold()
                with pytest.raises(StoreUnavailableError):
                    await call
                assert await asyncio.to_thread(backends.active_within, 2.0) == 0
            proxy.cut()
