"""The long-term memory in an SQLite database, in a file or in the memory of the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from jazzmine._sync.clients.sqlite import SQLiteClient, file_client, writing
from jazzmine._sync.long_term_memory.backend import ItemBackend
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine.backends.sqlite import items
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.config import MemoryMessagesConfig, SQLiteConfig
from jazzmine.encryption.items import item_codec
from jazzmine.records.item_rows import Cursor, ItemQuery, ItemRow
from jazzmine.search.vectors import Embed


class SQLiteItemBackend(ItemBackend):
    """Items in an SQLite database.

    Args:
        client: runs its queries and changes.
    """

    system_name = "sqlite"

    # All other writes wait for each step, and not just those of its items.
    deleted_at_once: ClassVar[int] = 50

    def __init__(self, client: SQLiteClient) -> None:
        self.client: SQLiteClient = client

    def get_items(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        return self.client.read(items.get, paths, records=len(paths))

    apply = writing(items.apply)
    renew = writing(items.renew)
    restore = writing(items.restore)
    rewrite = writing(items.rewrite)

    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        # How many rows a condition on the value passes over is not known.
        records = None if query.where or query.reads == "vectors" else limit
        return self.client.read(items.page, query, limit, after, records=records)

    def list_namespaces(
        self, prefix: str, first: str, limit: int, user_id: str | None = None
    ) -> Sequence[str]:
        return self.client.read(
            items.namespaces, prefix, first, limit, user_id, records=limit
        )

    erase = writing(items.erase)
    move_user = writing(items.move_user)

    def purge(self) -> None:
        self.client.purge()

    prune = writing(items.prune)


class SQLiteLongTermMemoryStore(LongTermMemoryStore):
    """A long-term memory in an SQLite database, which several processes of a machine may share.

    A write returns when the disk holds it, and writes that arrive at once share one transaction.
    Reads never wait for writes.
    """

    def __init__(
        self,
        config: SQLiteConfig,
        embed: Embed | None = None,
        client: SQLiteClient | None = None,
    ) -> None:
        SQLiteConfig.require(config)
        backend = SQLiteItemBackend(client or file_client(config, items.ITEM_TABLES))
        super().__init__(backend, embed, item_codec(config))


class InMemoryLongTermMemoryStore(LongTermMemoryStore):
    """A long-term memory without a file, for tests and for agents that are not kept.

    Its items belong to this object alone, and end with it.
    """

    def __init__(
        self, config: MemoryMessagesConfig | None = None, embed: Embed | None = None
    ) -> None:
        backend = SQLiteItemBackend(SQLiteClient(MemoryDatabase(items.ITEM_TABLES)))
        super().__init__(backend, embed, item_codec(config or MemoryMessagesConfig()))
