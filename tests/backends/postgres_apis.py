"""A store of either API, reached directly or through PgBouncer, with async calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg

from jazzmine import core, sync
from tests.faults.sizes import LENIENCE
from tests.servers import pgbouncer, postgres
from tests.servers.proxy import Proxy

APIS = ("async", "sync")
ROUTES = ("direct", "pgbouncer") if pgbouncer.PROGRAM else ("direct",)


MESSAGES: dict[str, Any] = {"async": core.MessageStore, "sync": sync.MessageStore}
ITEMS: dict[str, Any] = {"async": core.LongTermMemoryStore, "sync": sync.LongTermMemoryStore}


class _InThreads:
    """The calls of a sync store, each in a thread."""

    def __init__(self, store: Any, threads: ThreadPoolExecutor) -> None:
        self._store = store
        self._threads = threads

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        async def run(*args: Any, **options: Any) -> Any:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, lambda: call(*args, **options))

        return run


@asynccontextmanager
async def opened(
    api: str, config: dict[str, object], stores: dict[str, Any] = MESSAGES
) -> AsyncIterator[Any]:
    """A store of one API, closed at the end."""
    if api == "async":
        async with await stores[api].initialize(config) as store:
            yield store
        return
    with ThreadPoolExecutor(32) as threads:
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(threads, stores[api].initialize, config)
        calls = _InThreads(await opening, threads)
        try:
            yield calls
        finally:
            await calls.close()


@contextmanager
def network(
    route: str, schema: str, **options: object
) -> Iterator[tuple[Proxy, dict[str, object]]]:
    """A proxy in front of the server or its pooler, and the configuration of a store through it."""
    address = postgres.dsn() if route == "direct" else pgbouncer.running()
    with Proxy(postgres.port_of(address)) as proxy:
        dsn = postgres.changed(postgres.dsn(), host="127.0.0.1", port=proxy.port)
        config: dict[str, object] = {"storage": "postgres", "dsn": dsn, "schema": schema}
        yield proxy, {**config, "prepare": route == "direct", **options}


async def active(admin: psycopg.Connection[Any], schema: str, count: int) -> None:
    """Wait until so many sessions run a statement that names the schema, 2 s at most."""
    query = """
        SELECT count(*) FROM pg_stat_activity
        WHERE strpos(query, %s) > 0 AND pid <> pg_backend_pid() AND state = 'active'"""
    async with asyncio.timeout(2 + LENIENCE):
        while admin.execute(query, [schema]).fetchone() != (count,):
            admin.execute("SELECT pg_stat_clear_snapshot()")
            await asyncio.sleep(0.02)
