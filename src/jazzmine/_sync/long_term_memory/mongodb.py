"""The long-term memory in a MongoDB database."""

from __future__ import annotations

from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine.config import MongoDBConfig
from jazzmine.encryption.items import item_codec
from jazzmine.extras import extra
from jazzmine.search.vectors import Embed


class MongoDBLongTermMemoryStore(LongTermMemoryStore):
    """A long-term memory in a MongoDB database, which any number of processes may share.

    On a replica set, also one of a single server, or a sharded cluster, changes are made in one
    transaction. A standalone server has no transactions: there each change is made by itself, and a
    call that failed between two of them has made the first ones.
    """

    def __init__(self, config: MongoDBConfig, embed: Embed | None = None) -> None:
        MongoDBConfig.require(config)
        with extra("mongodb", "MongoDB"):
            from jazzmine._sync.long_term_memory.mongodb_backend import MongoDBItemBackend
        super().__init__(MongoDBItemBackend(config), embed, item_codec(config))
