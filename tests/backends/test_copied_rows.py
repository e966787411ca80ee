"""Rows that were copied without the sequence or the counter of their numbers."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from jazzmine import DeleteItem, MemoryItem, PutItem
from jazzmine.sync import LongTermMemoryStore
from tests.servers import mongodb

Admin = psycopg.Connection[Any]
WORD = "open-sesame"
TABLES = ["conversations", "messages", "turn_traces"]


def item(**value: Any) -> MemoryItem:
    return MemoryItem(namespace=("n",), key="k", value=value)


@pytest.mark.parametrize("revision", [1, 100_000])
def test_revisions_on_mongodb_go_on_after_those_of_items_that_were_copied_without_the_counter(
    revision: int,
) -> None:
    with (
        mongodb.database() as configuration,
        LongTermMemoryStore.initialize(configuration) as store,
    ):
        store.put(item(n=1))
        database = mongodb.client(str(configuration["uri"]))[str(configuration["db"])]
        database["memory_items"].update_one({}, {"$set": {"revision": revision}})
        database.drop_collection("memory_item_revisions")

        other = MemoryItem(namespace=("n",), key="l", value={})
        changed, _, _ = store.apply([PutItem(item(n=2)), PutItem(other), DeleteItem(("n",), "x")])

        assert isinstance(changed, MemoryItem)
        assert changed.revision > revision
        assert store.get(("n",), "k") == changed
