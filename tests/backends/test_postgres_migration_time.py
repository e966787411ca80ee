"""Schema changes have their own deadline, and other processes wait for them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest

from jazzmine._async.clients.postgres import migration as async_migration
from jazzmine._sync.clients.postgres import migration
from jazzmine.backends.postgres.schema import Migration, migrations
from jazzmine.core import MessageStore as AsyncMessageStore
from jazzmine.errors import StoreUnavailableError
from jazzmine.sync import MessageStore
from tests.backends.postgres_apis import active
from tests.backends.postgres_samples import bound, config, conversation, message
from tests.faults.sizes import TOLERANCE
from tests.servers import postgres

SHORT = 2.0
"""The deadline of a call, in s; the changes take longer."""

HELD = 3.0
"""How long a table is locked, in s."""


ALTERED = "ALTER TABLE $schema.messages ADD COLUMN language text"


@pytest.fixture
def schema(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a schema in which a migration is left to be applied, which changes the tables."""
    with postgres.new_schema() as name:
        MessageStore.initialize(config(name)).close()
        known = migrations()
        newer = (*known, Migration(known[-1].version + 1, "language", ALTERED))
        monkeypatch.setattr(migration, "migrations", lambda _: newer)
        yield name


@contextmanager
def locked(schema: str, seconds: float) -> Iterator[None]:
    """Hold a lock on a table that the migrations change, for at most so many seconds."""
    with psycopg.connect(postgres.dsn()) as holder:
        holder.execute(bound("LOCK TABLE $schema.messages IN ACCESS SHARE MODE", schema))
        timer = threading.Timer(seconds, holder.rollback)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def version_of(schema: str) -> Any:
    with postgres.connect(postgres.dsn()) as admin:
        row = admin.execute(bound("SELECT max(version) FROM $schema.jazzmine_migrations", schema))
        return (row.fetchone() or (None,))[0]


def test_others_write_while_a_change_waits_for_a_lock_that_pg_dump_has(schema: str) -> None:
    write = bound("UPDATE $schema.messages SET id = id WHERE id = 'm1'", schema)
    took = []
    with (
        locked(schema, HELD),
        postgres.connect(postgres.dsn()) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        opening = thread.submit(MessageStore.initialize, config(schema))
        while not opening.done():
            started = monotonic()
            other.execute(write)
            took.append(monotonic() - started)
        opening.result().close()

    assert len(took) > 10
    assert max(took) < HELD / 2


@pytest.fixture
def hasty() -> str:
    """A DSN whose transactions may take 300 ms."""
    with postgres.connect(postgres.dsn()) as admin:
        if admin.info.server_version < 170_000:
            pytest.skip("this server has no transaction_timeout")
    return postgres.changed(postgres.dsn(), options="-c transaction_timeout=300")


def test_a_time_limit_of_transactions_does_not_end_an_export(schema: str, hasty: str) -> None:
    given = [message(f"m{n}") for n in range(3)]
    with MessageStore.initialize(config(schema, dsn=hasty)) as store:
        store.store_conversation(conversation())
        store.store_messages(given)
        exported = []
        for _, rows in store.backend.iter_stored(["messages"], 1):
            sleep(0.2)
            exported += [row[0] for row in rows]
    assert exported == [one.id for one in given]


def test_a_change_that_takes_too_long_changes_nothing(schema: str) -> None:
    with locked(schema, 60):
        started = monotonic()
        with pytest.raises(StoreUnavailableError, match=r"migration_timeout of 0\.5 s.*lock"):
            MessageStore.initialize(config(schema, migration_timeout=0.5))
        assert monotonic() - started < 10 + TOLERANCE
        assert version_of(schema) == migrations()[-1].version
    MessageStore.initialize(config(schema)).close()


async def test_a_change_that_is_cancelled_is_ended_by_the_server(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold its locks until `migration_timeout`."""
    newer = (*migrations(), Migration(99, "sleep", f"SELECT pg_sleep(60), '{schema}'"))
    monkeypatch.setattr(async_migration, "migrations", lambda _: newer)
    with postgres.connect(postgres.dsn()) as admin:
        opening = asyncio.ensure_future(AsyncMessageStore.initialize(config(schema)))
        await active(admin, schema, 1)
        opening.cancel()
        await asyncio.wait([opening])
        await active(admin, schema, 0)


def test_others_wait_and_say_so_once(schema: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each waits for longer than a call may take, and one of them changes the tables."""
    starters = 12

    def start(n: int) -> None:
        MessageStore.initialize(config(schema, timeout=SHORT, pool_min=1)).close()

    with (
        caplog.at_level(logging.INFO, logger="jazzmine"),
        locked(schema, HELD),
        ThreadPoolExecutor(starters) as threads,
    ):
        list(threads.map(start, range(starters)))
    said = [one.getMessage() for one in caplog.records if schema in one.getMessage()]
    assert len(said) == starters
    assert all("another session is using or changing the tables" in one for one in said)
    assert version_of(schema) == migrations()[-1].version + 1


def test_many_processes_may_start_at_once_in_an_empty_database(schema: str) -> None:
    with postgres.new_schema() as empty, ThreadPoolExecutor(12) as threads:
        options = config(empty, pool_min=1)
        for store in threads.map(MessageStore.initialize, [options] * 12):
            store.close()
        assert version_of(empty) == migrations()[-1].version + 1
