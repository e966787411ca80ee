"""Checks of a MongoDB set-up, through the client of the store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC

from jazzmine._sync.clients.mongodb.client import MongoDBClient
from jazzmine._sync.message_store.mongodb_backend import MongoDBBackend
from jazzmine._sync.message_store.mongodb_orphans import delete_orphans, find_orphans
from jazzmine.backends.clock import compared
from jazzmine.config import MongoDBConfig
from jazzmine.errors import ConfigurationError
from jazzmine.findings import Finding, failed, fine, warning

_MOST_NAMED = 5


def check_mongodb(config: MongoDBConfig, mend: bool) -> Iterator[Finding]:
    """Yield what is found.

    Args:
        config: where the server is.
        mend: whether to delete records whose conversation or message is not stored.

    Raises:
        StoreUnavailableError: no server can be reached, or it refuses the connection.
    """
    with closing(MongoDBBackend(config)) as backend:
        client = backend.client
        before = time.time()
        hello = client.connect()
        yield compared(hello["localTime"].replace(tzinfo=UTC).timestamp(), before, time.time())
        yield fine(f"MongoDB {client.command('buildInfo')['version']}")
        for name in client.unreachable():
            yield warning(
                f"the server {name} does not answer", "start it, or take it out of the address"
            )
        if "setName" in hello or hello.get("msg") == "isdbgrid":
            yield fine("writes of several records are one transaction")
        else:
            yield warning(
                "a standalone server has no transactions: a write of several records that fails may"
                " leave a part of them",
                "make it a replica set of one server: mongod --replSet rs0, then rs.initiate()",
            )
        try:
            pending = client.pending()
        except ConfigurationError as error:
            text, separator, cure = str(error).partition("; ")
            yield failed(text, cure if separator else "see the message")
            return
        for step in pending:
            yield failed(f"to do: {step}", "jazzmine migrate")
        if not pending:
            yield fine("the user has all rights, and all indexes are there")
            yield _orphans(client, mend)


def _orphans(client: MongoDBClient, mend: bool) -> Finding:
    orphans = find_orphans(client)
    if not orphans:
        return fine("each message has its conversation, each trace its message")
    if not mend:
        names = ", ".join(f"{name} of {owner!r}" for name, owner in orphans[:_MOST_NAMED])
        return warning(
            f"records belong to {len(orphans)} conversations or messages that are not stored"
            f" ({names})",
            "jazzmine doctor --mend deletes them",
        )
    deleted = sum(delete_orphans(client, name, owner) for name, owner in orphans)
    return fine(f"{deleted} records were deleted whose conversation or message is not stored")
