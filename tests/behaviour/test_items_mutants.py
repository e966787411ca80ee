"""The state machine of long-term memory detects stores with deliberate defects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from jazzmine._sync.clients.sqlite import SQLiteClient
from jazzmine._sync.long_term_memory.sqlite import SQLiteItemBackend
from jazzmine.backends.sqlite.items import ITEM_TABLES
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemQuery,
    ItemRow,
    Outcome,
    Renewal,
)
from jazzmine.records.log import ANY
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.behaviour.apis import Runner, as_async
from tests.behaviour.items_machine import ItemMachine
from tests.mutants import require_overrides, run_until_it_fails

Changes = Sequence[ItemChange]


class Memory(SQLiteItemBackend):
    def __init__(self) -> None:
        super().__init__(SQLiteClient(MemoryDatabase(ITEM_TABLES)))

    def sql(self, statement: str, *parameters: object) -> list[Any]:
        rows: list[Any] = self.client.write(
            lambda connection: connection.execute(statement, parameters).fetchall()
        )
        return rows


class IgnoresTheRevision(Memory):
    def apply(self, changes: Changes) -> Sequence[Outcome] | ItemConflict:
        return super().apply([replace(change, expected=ANY) for change in changes])


class ComparesWithExpiredItems(Memory):
    def apply(self, changes: Changes) -> Sequence[Outcome] | ItemConflict:
        for index, change in enumerate(changes):
            found = self.sql("SELECT revision FROM stored_items WHERE path = ?", change.path)
            if change.expected is None and found:
                return ItemConflict(index, found[0][0])
        return super().apply(changes)


class StartsRevisionsAnewAfterADeletion(Memory):
    def apply(self, changes: Changes) -> Sequence[Outcome] | ItemConflict:
        outcomes = super().apply(changes)
        if True in (outcomes if isinstance(outcomes, list) else []):
            newest = "(SELECT coalesce(max(revision), 0) FROM stored_items)"
            self.sql(f"UPDATE item_revisions SET last = {newest}")
        return outcomes


class MakesSomeOfTheChanges(Memory):
    def apply(self, changes: Changes) -> Sequence[Outcome] | ItemConflict:
        outcomes: list[Outcome] = []
        for change in changes:
            outcome = super().apply([change])
            if isinstance(outcome, ItemConflict):
                return ItemConflict(len(outcomes), outcome.revision)
            outcomes += outcome
        return outcomes


class ForgetsTheTimeOfCreation(Memory):
    def apply(self, changes: Changes) -> Sequence[Outcome] | ItemConflict:
        outcomes = super().apply(changes)
        self.sql("UPDATE stored_items SET created_at = updated_at - 1 WHERE data = x''")
        return outcomes


class KeepsTheData(Memory):
    def apply(self, changes: Changes) -> Sequence[Outcome] | ItemConflict:
        kept = []
        for change in changes:
            found = self.sql("SELECT data FROM stored_items WHERE path = ?", change.path)
            if change.item and change.item.data is None and found and found[0][0]:
                copy = change.item.model_copy(update={"data": bytes(found[0][0])})
                change = replace(change, item=copy)
            kept.append(change)
        return super().apply(kept)


class MatchesHalfParts(Memory):
    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        rows = super().list_items(replace(query, prefix=""), None, after)
        half = query.prefix[:-1].encode()
        return [row for row in rows if row[0].startswith(half)][:limit]


class RepeatsTheLastOfAPage(Memory):
    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        if after is not None:
            after = after._replace(path=after.path[:-1], revision=after.revision + 1)
        return super().list_items(query, limit, after)


class TakesOneForTrue(Memory):
    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        if query.where and query.where.get("n") is True:
            query = replace(query, where={**query.where, "n": 1})
        return super().list_items(query, limit, after)


class ListsOldestFirst(Memory):
    def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        rows = super().list_items(query, limit, after)
        return rows[::-1] if query.order == "updated" and after is None and not limit else rows


class ListsExpiredNamespaces(Memory):
    def list_namespaces(
        self, prefix: str, first: str, limit: int, user_id: str | None = None
    ) -> Sequence[str]:
        rows = self.sql(
            "SELECT DISTINCT substr(path, 1, instr(path, char(1, 1))) FROM stored_items"
        )
        found = sorted(row[0] for row in rows)
        return [one for one in found if one >= first and one.startswith(prefix)][:limit]


class ErasesOnlyWhatHasNotExpired(Memory):
    def erase(self, user_id: str, limit: int) -> int:
        self.sql("UPDATE stored_items SET user_id = NULL WHERE expires_at = 1")
        return super().erase(user_id, limit)


class RenewsAnyRevision(Memory):
    def renew(self, renewals: Sequence[Renewal]) -> int:
        for renewal in renewals:
            self.sql(
                "UPDATE stored_items SET expires_at = ? WHERE path = ?",
                renewal.expires_at,
                renewal.path,
            )
        return super().renew(renewals)


class PrunesTooMuch(Memory):
    def prune(self, limit: int, user_id: str | None = None) -> int:
        self.sql("DELETE FROM stored_items WHERE expires_at IS NOT NULL")
        return super().prune(limit, user_id)


MUTANTS: list[type[Memory]] = [
    IgnoresTheRevision,
    ComparesWithExpiredItems,
    StartsRevisionsAnewAfterADeletion,
    MakesSomeOfTheChanges,
    ForgetsTheTimeOfCreation,
    KeepsTheData,
    MatchesHalfParts,
    RepeatsTheLastOfAPage,
    TakesOneForTrue,
    ListsOldestFirst,
    ListsExpiredNamespaces,
    ErasesOnlyWhatHasNotExpired,
    RenewsAnyRevision,
    PrunesTooMuch,
]


def run(make: Callable[[], Memory], rounds: int = 100) -> None:
    with Runner() as shared_runner:

        class Mutant(ItemMachine):
            open_store = staticmethod(lambda: as_async(LongTermMemoryStore(make())).open())
            runner = shared_runner
            count = 1

        run_until_it_fails(Mutant, rounds)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_noticed(mutant: type[Memory]) -> None:
    require_overrides(mutant)
    with pytest.raises(AssertionError):
        run(mutant)


def test_the_store_without_a_defect_is_not_refused() -> None:
    run(Memory, rounds=1)
