"""What the commands that move records read and write: a message store, or a long-term memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from time import time_ns
from typing import Any, Literal, TypeAlias

from jazzmine.records.base import Record, RecordKind
from jazzmine.records.item_paths import path_of
from jazzmine.records.item_rows import StoredItem
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.sync import LongTermMemoryStore, MessageStore
from jazzmine.sync.maintenance import (
    is_rewritten,
    iter_items,
    iter_records,
    restore_items,
    store_records,
)

__all__ = ["Items", "Kind", "Messages", "Place", "keys_of", "name_of", "now_ms"]

Kind: TypeAlias = RecordKind | Literal["items"]

_RECORDS_AT_ONCE = 500
# An item may hold a file.
_ITEMS_AT_ONCE = 50


class Place(ABC):
    """An open store whose records are read or written in their order.

    Attributes:
        kinds: the kinds of record, in the order in which they depend on each other.
        is_rewritten: whether each write costs as much as all that is stored.
    """

    kinds: tuple[Kind, ...]
    is_rewritten: bool = False

    @abstractmethod
    def batches(self, kind: Kind) -> Iterator[list[Any]]:
        """Yield all readable records of a kind in their order, some at a time."""

    @abstractmethod
    def same(self, kind: Kind, source: Iterator[list[Any]]) -> Iterator[list[Any]]:
        """Yield the records that have the ids of another place's, in the order of these."""

    @abstractmethod
    def store(self, kind: Kind, records: Sequence[Any]) -> None:
        """Store records, in place of those with their ids."""


class Messages(Place):
    """A message store; the order of records is that in which their ids were first stored."""

    kinds: tuple[Kind, ...] = ("conversations", "messages", "traces")

    def __init__(self, store: MessageStore) -> None:
        self.opened: MessageStore = store
        self.is_rewritten: bool = is_rewritten(store)

    def batches(self, kind: Kind) -> Iterator[list[Any]]:
        """Yield all readable records of a kind."""
        assert kind != "items"
        return iter_records(self.opened, kind, _RECORDS_AT_ONCE)

    def same(self, kind: Kind, source: Iterator[list[Any]]) -> Iterator[list[Any]]:
        """Yield the records that have the ids of another place's."""
        store = self.opened
        for records in source:
            ids = [record.id for record in records]
            if kind == "messages":
                yield store.get_messages_by_ids(ids)
            else:
                get = (
                    store.get_conversation_by_id
                    if kind == "conversations"
                    else store.get_turn_trace_by_id
                )
                yield [record for record in map(get, ids) if record is not None]

    def store(self, kind: Kind, records: Sequence[Any]) -> None:
        """Store records, in place of those with their ids."""
        assert kind != "items"
        store_records(self.opened, kind, records)


class Items(Place):
    """A long-term memory; the order of items is that of their namespaces and keys.

    Args:
        store: an open store.
        at: when items must not have expired yet, in ms. What expires later is there, so that both
            sides of a copy have the same items, however long it takes.
    """

    kinds: tuple[Kind, ...] = ("items",)

    def __init__(self, store: LongTermMemoryStore, at: int) -> None:
        self._store, self._at = store, at

    def batches(self, kind: Kind) -> Iterator[list[Any]]:
        """Yield all readable records of a kind."""
        return iter_items(self._store, self._at, _ITEMS_AT_ONCE)

    def same(self, kind: Kind, source: Iterator[list[Any]]) -> Iterator[list[Any]]:
        """Yield the records that have the ids of another place's."""
        ours = (item for items in self.batches(kind) for item in items)
        item = next(ours, None)
        for items in source:
            found = []
            for path in map(_path, items):
                while item is not None and _path(item) < path:
                    item = next(ours, None)
                if item is not None and _path(item) == path:
                    found.append(item)
            yield found

    def store(self, kind: Kind, records: Sequence[Any]) -> None:
        """Store records, in place of those with their ids."""
        restore_items(self._store, records)


def now_ms() -> int:
    """Return the time of this machine."""
    return time_ns() // 1_000_000


def keys_of(record: Conversation | Message | TurnTrace | StoredItem) -> tuple[str, ...]:
    """Return by what a record takes the place of another one of its kind."""
    if isinstance(record, StoredItem):
        return (_path(record),)
    if isinstance(record, TurnTrace):  # of an id, and of a message
        return f"id {record.id}", f"message {record.message_id}"
    return (record.id,)


def name_of(record: Record) -> str:
    """Return what a user calls a record."""
    if isinstance(record, StoredItem):
        return f"{record.key!r} in {record.namespace!r}"
    return repr(record.id)  # type: ignore[attr-defined]


def _path(item: StoredItem) -> str:
    return path_of(item.namespace, item.key)
