"""Lists that read all records are for a back end that has no queries yet."""

from __future__ import annotations

import inspect

import pytest

from jazzmine._async.message_store import hooks
from jazzmine._async.message_store.json import JSONMessageStore
from jazzmine._async.message_store.mongodb import MongoDBMessageStore
from jazzmine._async.message_store.postgres import PostgresMessageStore
from jazzmine._async.message_store.sqlite import SQLiteMessageStore

READS_EVERYTHING = [
    name
    for name, method in vars(hooks.MessageStoreHooks).items()
    if inspect.isroutine(method) and "self._scan(" in inspect.getsource(method)
]


@pytest.mark.parametrize(
    "kind", [JSONMessageStore, SQLiteMessageStore, PostgresMessageStore, MongoDBMessageStore]
)
@pytest.mark.parametrize("name", [*READS_EVERYTHING, "_iter_batches"])
def test_the_back_ends_list_by_queries(kind: type, name: str) -> None:
    assert getattr(kind, name) is not getattr(hooks.MessageStoreHooks, name)


def test_the_lists_by_default_are_known() -> None:
    assert len(READS_EVERYTHING) == 10
