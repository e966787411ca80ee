"""The message store in a MongoDB database."""

from __future__ import annotations

from jazzmine._async.message_store.store import MessageStore
from jazzmine.config import MongoDBConfig
from jazzmine.encryption.records import record_codec
from jazzmine.extras import extra


class MongoDBMessageStore(MessageStore):
    """A message store in a MongoDB database, which any number of processes may share.

    On a replica set, also one of a single server, or a sharded cluster, a call that needs several
    commands sends them in one transaction. A standalone server has no transactions: a call that
    fails there may leave a part.
    """

    def __init__(self, config: MongoDBConfig) -> None:
        MongoDBConfig.require(config)
        with extra("mongodb", "MongoDB"):
            from jazzmine._async.message_store.mongodb_backend import MongoDBBackend
        super().__init__(MongoDBBackend(config), record_codec(config))
