"""The long-term memory in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jazzmine._async.clients.postgres import new_client
from jazzmine._async.long_term_memory.backend import ItemBackend
from jazzmine._async.long_term_memory.store import LongTermMemoryStore
from jazzmine.backends.postgres import items
from jazzmine.backends.postgres.schema import ITEM_TABLES
from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.config import PostgresConfig
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

if TYPE_CHECKING:
    from jazzmine._async.clients.postgres.client import PostgresClient


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
    """The hooks of a long-term memory in PostgreSQL."""

    system_name = "postgresql"

    def __init__(self, client: PostgresClient) -> None:
        self.client: PostgresClient = client

    async def get_items(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        parameters = {"paths": list(map(to_text, paths))}
        return items.item_rows(await self.client.run(items.GET, parameters))

    async def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        order = items.in_order(changes)
        parameters = items.change_parameters([changes[index] for index in order])
        # With a condition, an attempt that took effect would be the conflict of the next one.
        repeats = bool(parameters["are_any"])
        rows = await self.client.run(items.CHANGE, parameters, repeats=repeats)
        return items.outcomes_of(rows[0][0], order)

    async def renew(self, renewals: Sequence[Renewal]) -> int:
        parameters = items.renewal_parameters(renewals)
        # It reads the table by its index only where it is planned for these very paths.
        return len(await self.client.run(items.RENEW, parameters, prepare=False))

    async def restore(self, changes: Sequence[ItemChange]) -> None:
        await self.client.run(items.RESTORE, items.restored_parameters(changes))

    async def rewrite(self, versions: Sequence[ItemVersion]) -> None:
        for version in versions:
            await self.client.run(*items.rewriting(version))

    async def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        statement, parameters = items.page(query, limit, after)
        # How rare the values are decides which index is the best.
        prepare = False if query.where else None
        return items.item_rows(await self.client.run(statement, parameters, prepare=prepare))

    async def list_namespaces(
        self, prefix: str, first: str, limit: int, user_id: str | None = None
    ) -> Sequence[str]:
        statement, parameters = items.namespaces_page(prefix, first, limit, user_id)
        return [from_text(row[0]) for row in await self.client.run(statement, parameters)]

    async def erase(self, user_id: str, limit: int) -> int:
        parameters = {"user": to_text(user_id), "limit": limit}
        return len(await self.client.run(items.ERASE, parameters))

    async def move_user(self, from_id: str, to_id: str) -> int:
        parameters = {"old": to_text(from_id), "new": to_text(to_id)}
        return len(await self.client.run(items.MOVE_USER, parameters))

    async def prune(self, limit: int, user_id: str | None = None) -> int:
        parameters = {"limit": limit, "user": user_id and to_text(user_id)}
        return len(await self.client.run(items.PRUNE, parameters))
