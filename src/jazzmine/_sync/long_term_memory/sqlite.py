"""The long-term memory in an SQLite database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from jazzmine._sync.clients.sqlite import SQLiteClient, file_client
from jazzmine._sync.long_term_memory.backend import ItemBackend
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine.backends.sqlite import items
from jazzmine.config import SQLiteConfig
from jazzmine.encryption.items import item_codec
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemQuery,
    ItemRow,
    ItemVersion,
    Outcome,
    Renewal,
)
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

    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        return self.client.write(items.apply, changes)

    def renew(self, renewals: Sequence[Renewal]) -> int:
        return self.client.write(items.renew, renewals)

    def restore(self, changes: Sequence[ItemChange]) -> None:
        self.client.write(items.restore, changes)

    def rewrite(self, versions: Sequence[ItemVersion]) -> None:
        self.client.write(items.rewrite, versions)

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

    def erase(self, user_id: str, limit: int) -> int:
        return self.client.write(items.erase, user_id, limit)

    def move_user(self, from_id: str, to_id: str) -> int:
        return self.client.write(items.move_user, from_id, to_id)

    def purge(self) -> None:
        self.client.purge()

    def prune(self, limit: int, user_id: str | None = None) -> int:
        return self.client.write(items.prune, limit, user_id)


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
