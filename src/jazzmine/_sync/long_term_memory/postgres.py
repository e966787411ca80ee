"""The long-term memory in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jazzmine._sync.clients.postgres import new_client
from jazzmine._sync.long_term_memory.backend import ItemBackend
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine.backends.postgres import items, statements
from jazzmine.backends.postgres.schema import ITEM_TABLES
from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.config import PostgresConfig
from jazzmine.encryption.codecs import item_codec
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

if TYPE_CHECKING:
    from jazzmine._sync.clients.postgres.client import PostgresClient

__all__ = ["PostgresItemBackend", "PostgresLongTermMemoryStore"]


class PostgresLongTermMemoryStore(LongTermMemoryStore):
    """A long-term memory in PostgreSQL 12 or newer.

    Each call is one statement, in one round trip; a search is several. The store has its own pool
    of connections, if `open_stores` has not given it one. A connection that was lost is replaced,
    and its call is repeated until `timeout`.
    """

    def __init__(
        self,
        config: PostgresConfig,
        embed: Embed | None = None,
        client: PostgresClient | None = None,
    ) -> None:
        PostgresConfig.require(config)
        backend = PostgresItemBackend(client or new_client(config, ITEM_TABLES))
        super().__init__(backend, embed, item_codec(config))


class PostgresItemBackend(ItemBackend):
    """Items in PostgreSQL: each write is one function of the schema."""

    system_name = "postgresql"

    def __init__(self, client: PostgresClient) -> None:
        self._client = client

    def after_fork(self) -> None:
        """Replace the pool in a forked process."""
        self._client.after_fork()

    def open(self) -> None:
        """Bring the schema up to date, and connect."""
        self._client.open()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def ping(self) -> None:
        """Make one round trip to the server."""
        self._client.rows(statements.PING)

    def pending(self) -> list[str]:
        """Return the migrations that opening the store would apply."""
        return self._client.pending()

    def get_items(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        """Return the rows at some paths."""
        statement, parameters = items.get(paths)
        return items.item_rows(self._client.rows(statement, parameters))

    def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        """Make the changes in one statement."""
        # The others of this process that change the same item wait outside of the pool.
        line = to_text(changes[0].path) if len(changes) == 1 else ""
        order = items.in_order(changes)
        parameters = items.change_parameters([changes[index] for index in order])
        answer = self._client.write(
            statements.CHANGE_ITEMS, parameters, line=line, is_repeatable=False
        )
        return items.outcomes_of(answer, order)

    def renew(self, renewals: Sequence[Renewal]) -> int:
        """Set `expires_at` of items in one statement."""
        parameters = items.renewal_parameters(renewals)
        return int(
            self._client.write(statements.RENEW_ITEMS, parameters, is_repeatable=False)
        )

    def restore(self, changes: Sequence[ItemChange]) -> None:
        """Store items as they are in one statement."""
        self._client.write(statements.RESTORE_ITEMS, items.restored_parameters(changes))

    def rewrite(self, versions: Sequence[ItemVersion]) -> None:
        """Store other forms of items, one after another."""
        for version in versions:
            self._client.rows(*items.rewriting(version))

    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        """Return a page of items."""
        statement, parameters = items.page(query, limit, after)
        # How rare the values are decides which index is the best.
        prepare = False if query.where else None
        return items.item_rows(self._client.rows(statement, parameters, prepare=prepare))

    def list_namespaces(
        self, prefix: str, first: str, limit: int, user_id: str | None = None
    ) -> Sequence[str]:
        """Return namespaces that have items."""
        statement, parameters = items.namespaces_page(prefix, first, limit, user_id)
        return [from_text(row[0]) for row in self._client.rows(statement, parameters)]

    def erase(self, user_id: str, limit: int) -> int:
        """Delete some of a user's items."""
        parameters = {"user": to_text(user_id), "limit": limit}
        return int(
            self._client.write(statements.ERASE_ITEMS, parameters, is_repeatable=False)
        )

    def prune(self, limit: int, user_id: str | None = None) -> int:
        """Delete some of the expired items."""
        statement = statements.PRUNE_ITEMS
        parameters: dict[str, object] = {"limit": limit}
        if user_id is not None:
            statement = statements.scoped(statement)
            parameters["viewer"] = to_text(user_id)
        return int(self._client.write(statement, parameters, is_repeatable=False))
