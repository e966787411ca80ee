"""The long-term memory in the memory of the process."""

from __future__ import annotations

from jazzmine._sync.clients.sqlite import SQLiteClient
from jazzmine._sync.long_term_memory.sqlite import SQLiteItemBackend
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine.backends.sqlite.items import ITEM_TABLES
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.config import MemoryMessagesConfig
from jazzmine.encryption.items import item_codec
from jazzmine.search.vectors import Embed


class InMemoryLongTermMemoryStore(LongTermMemoryStore):
    """A long-term memory without a file, for tests and for agents that are not kept.

    Its items belong to this object alone, and end with it.
    """

    def __init__(
        self, config: MemoryMessagesConfig | None = None, embed: Embed | None = None
    ) -> None:
        backend = SQLiteItemBackend(SQLiteClient(MemoryDatabase(ITEM_TABLES)))
        super().__init__(backend, embed, item_codec(config or MemoryMessagesConfig()))
