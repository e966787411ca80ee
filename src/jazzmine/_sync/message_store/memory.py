"""The message store in the memory of the process."""

from __future__ import annotations

from jazzmine._sync.clients.sqlite import SQLiteClient
from jazzmine._sync.message_store.sqlite import SQLiteBackend
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.backends.sqlite.schema import MESSAGE_TABLES
from jazzmine.config import MemoryMessagesConfig
from jazzmine.encryption.records import record_codec
from jazzmine.records.types import MAX_INT


class MemoryBackend(SQLiteBackend):
    """Messages in a database in memory."""

    system_name = "jazzmine.memory"
    indexed_at_once = MAX_INT


class InMemoryMessageStore(MessageStore):
    """A message store without a file, for tests and for agents that are not kept.

    Its records belong to this object alone, and end with it.
    """

    def __init__(self, config: MemoryMessagesConfig | None = None) -> None:
        config = config or MemoryMessagesConfig()
        backend = MemoryBackend(
            SQLiteClient(MemoryDatabase(MESSAGE_TABLES)), config.search_language
        )
        super().__init__(backend, record_codec(config))
