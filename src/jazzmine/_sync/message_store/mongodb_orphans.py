"""Messages and traces in MongoDB without what they belong to: found, and deleted.

A message stays without its conversation if another process deleted that at the same moment; on a
standalone server a call that failed may leave more.
"""

from __future__ import annotations

from functools import partial

from jazzmine._sync.clients.mongodb.client import MongoDBClient
from jazzmine._sync.clients.mongodb.types import Session
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, MESSAGES, TRACES
from jazzmine.backends.mongodb.queries import equal, missing_owners

__all__ = ["delete_orphans", "find_orphans"]

# Which field of a document names which other document.
_OWNERS = ((MESSAGES, "conversation_id", CONVERSATIONS), (TRACES, "message_id", MESSAGES))


def find_orphans(client: MongoDBClient) -> list[tuple[str, str]]:
    """Return of which owners, that are not stored, there are documents.

    Returns:
        The name of a collection and the id of an owner of some of its documents, for each.
    """
    found: list[tuple[str, str]] = []
    for name, field, owners in _OWNERS:
        groups = client.run(partial(_missing, client, name, field, owners))
        found += [(name, owner) for owner in groups]
    return found


def _missing(client: MongoDBClient, name: str, field: str, owners: str) -> list[str]:
    cursor = client.collections[name].aggregate(missing_owners(field, owners))
    return [group["_id"] for group in cursor.to_list() if isinstance(group["_id"], str)]


def delete_orphans(client: MongoDBClient, name: str, owner: str) -> int:
    """Delete the documents of an owner unless it is stored now, and return how many."""
    [(_, field, owners)] = [one for one in _OWNERS if one[0] == name]
    stored = client.collections

    def delete(session: Session | None) -> int:
        own = equal(id=owner)
        if stored[owners].find_one(own, {"_id": 1}, session=session) is not None:
            return 0
        orphans = equal(**{field: owner})
        deleted = (stored[name].delete_many(orphans, session=session)).deleted_count
        if name == MESSAGES:  # with their traces
            deleted += (stored[TRACES].delete_many(orphans, session=session)).deleted_count
        return deleted

    return client.transaction([owner], delete)
