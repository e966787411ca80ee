"""Checks of a MongoDB set-up, through the client of the store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC
from functools import partial
from typing import Any

from jazzmine._sync.clients.mongodb.client import MongoDBClient
from jazzmine._sync.clients.mongodb.types import Collection
from jazzmine._sync.message_store.mongodb_backend import MongoDBBackend
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, MESSAGES, TRACES
from jazzmine.config import MongoDBConfig
from jazzmine.errors import ConfigurationError
from jazzmine.findings import Finding, clocks_compared, failed, fine, warning

_MOST_NAMED = 5
# Which field of a document names which other document.
_OWNERS = ((MESSAGES, "conversation_id", CONVERSATIONS), (TRACES, "message_id", MESSAGES))


def check_mongodb(config: MongoDBConfig, mend: bool) -> Iterator[Finding]:
    """Yield what is found.

    Args:
        config: where the server is.
        mend: whether to delete records whose conversation or message is not stored.
    """
    with closing(MongoDBBackend(config)) as backend:
        client = backend.client
        before = time.time()
        hello = client.connect()
        yield clocks_compared(
            hello["localTime"].replace(tzinfo=UTC).timestamp(), before, time.time()
        )
        driver = client.collections[MESSAGES].database.client
        yield fine(f"MongoDB {client.run(driver.server_info)['version']}")
        for (host, port), server in driver.topology_description.server_descriptions().items():
            if server.error is not None:
                yield warning(
                    f"the server {host}:{port} does not answer",
                    "start it, or take it out of the address",
                )
        if client.has_transactions:
            yield fine("writes of several records are one transaction")
        else:
            yield warning(
                "a standalone server has no transactions: a write of several records that fails may"
                " leave a part of them",
                "make it a replica set of one server: mongod --replSet rs0, then rs.initiate()",
            )
        try:
            missing = client.run(client.schema.missing)
        except ConfigurationError as error:
            text, separator, cure = str(error).partition("; ")
            yield failed(text, cure if separator else "see the message")
            return
        for step in missing:
            yield failed(f"to do: {step.text}", "jazzmine migrate")
        if not missing:
            yield fine("the user has all rights, and all indexes are there")
            yield _orphans(client, mend)


def _orphans(client: MongoDBClient, mend: bool) -> Finding:
    """Find messages without their conversation and traces without their message.

    One stays if another process deleted what it belongs to at the same moment; on a standalone
    server a call that failed may leave more.
    """
    orphans: list[str] = []
    deleted = 0
    for name, field, owners in _OWNERS:
        collection = client.collections[name]
        for group in client.run(partial(_without_owner, collection, field, owners)):
            orphans.append(f"{name} of {group['_id']!r}")
            if mend:  # not what was stored since, perhaps with its owner
                found = {field: {"$eq": group["_id"]}, "_id": {"$lte": group["newest"]}}
                deleted += client.run(partial(collection.delete_many, found)).deleted_count
    if not orphans:
        return fine("each message has its conversation, each trace its message")
    if mend:
        return fine(f"{deleted} records were deleted whose conversation or message is not stored")
    return warning(
        f"records belong to {len(orphans)} conversations or messages that are not stored"
        f" ({', '.join(orphans[:_MOST_NAMED])})",
        "jazzmine doctor --mend deletes them",
    )


def _without_owner(collection: Collection, field: str, owners: str) -> list[dict[str, Any]]:
    """Return the owners of documents that are not stored, each with its newest document."""
    stages: list[dict[str, Any]] = [
        {"$group": {"_id": f"${field}", "newest": {"$max": "$_id"}}},
        {"$lookup": {"from": owners, "localField": "_id", "foreignField": "id", "as": "owner"}},
        {"$match": {"owner": []}},
    ]
    return collection.aggregate(stages).to_list()
