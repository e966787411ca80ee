"""Checks of a MongoDB set-up, through the client of the store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC

from jazzmine._sync.message_store.mongodb_backend import MongoDBBackend
from jazzmine.backends.clock import compared
from jazzmine.config import MongoDBConfig
from jazzmine.errors import ConfigurationError
from jazzmine.findings import Finding, failed, fine, warning

__all__ = ["check_mongodb"]


def check_mongodb(config: MongoDBConfig) -> Iterator[Finding]:
    """Yield what is found.

    Raises:
        StoreUnavailableError: no server can be reached, or it refuses the connection.
    """
    with closing(MongoDBBackend(config)) as backend:
        client = backend.client
        before = time.time()
        hello = client.command("hello")
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
                " be half done, until it is repeated",
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
