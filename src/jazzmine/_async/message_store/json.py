"""The message store in one JSON file."""

from __future__ import annotations

from jazzmine._async.clients.sqlite import SQLiteClient
from jazzmine._async.message_store.sqlite import SQLiteBackend
from jazzmine._async.message_store.store import MessageStore
from jazzmine.backends.json.database import JSONDatabase
from jazzmine.config import JSONStoreConfig
from jazzmine.encryption.records import record_codec
from jazzmine.records.types import MAX_INT


class JSONBackend(SQLiteBackend):
    """Messages in a JSON file, whose records are in a database in memory."""

    system_name = "jazzmine.json"

    # Each step writes the whole file.
    deleted_at_once = 100_000

    async def fill_search(self, size: int) -> int | None:
        return await super().fill_search(MAX_INT)


class JSONMessageStore(MessageStore):
    """A message store in one JSON file, which several processes may share.

    Records are read from memory. A write returns after the file is on the disk; concurrent
    writes share one replacement of the file, which takes time proportional to its size.
    """

    def __init__(self, config: JSONStoreConfig) -> None:
        JSONStoreConfig.require(config)
        database = JSONDatabase(str(config.path), config.fsync, config.lock_timeout)
        backend = JSONBackend(SQLiteClient(database), config.search_language)
        super().__init__(backend, record_codec(config))
