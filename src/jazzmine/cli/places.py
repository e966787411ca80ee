"""Records as a stream: read from a store, compared, and written to another one.

A stream yields a kind with some records of it, all of a kind before the next, in their order. In a
message store ids are in the order in which they were first stored; items in that of their names.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import time_ns
from typing import Any, Literal, TypeAlias

from jazzmine.cli.output import Refused, counted, say
from jazzmine.errors import RecordTooLargeError
from jazzmine.records import unreadable
from jazzmine.records.base import Record, RecordKind, Snapshot
from jazzmine.records.item_paths import path_of
from jazzmine.records.item_rows import StoredItem
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.sync import JSONMessageStore, LongTermMemoryStore, MessageStore
from jazzmine.sync.maintenance import iter_items, iter_records, restore_items, store_records

Sort: TypeAlias = RecordKind | Literal["items"]
Batch: TypeAlias = tuple[Sort, list[Any]]

_READ_AT_ONCE, _STORED_AT_ONCE = 500, 1_000
_ITEMS_AT_ONCE = 50  # an item may hold a file
_BYTES_AT_ONCE = 2_000_000


class Messages:
    """A message store; its kinds of records, in the order in which they depend on each other."""

    kinds: tuple[RecordKind, ...] = ("conversations", "messages", "traces")

    def __init__(self, store: MessageStore) -> None:
        self.opened: MessageStore = store

    def batches(self) -> Iterator[Batch]:
        """Yield all readable records, on PostgreSQL as they were at one moment."""
        yield from iter_records(self.opened, self.kinds, _READ_AT_ONCE)

    def same(self, kind: Sort, records: Sequence[Any]) -> list[Any]:
        """Return the stored records that have the ids of others."""
        store, ids = self.opened, [record.id for record in records]
        if kind == "messages":
            return store.get_messages_by_ids(ids)
        by_id = {
            "conversations": store.get_conversation_by_id,
            "traces": store.get_turn_trace_by_id,
        }
        return [record for record in map(by_id[kind], ids) if record is not None]

    def store(self, kind: Sort, records: Sequence[Any]) -> None:
        """Store records, in place of those with their ids."""
        assert kind != "items"
        store_records(self.opened, kind, records)


class Items:
    """A long-term memory, with the items that had not expired when this was made.

    So both sides of a copy have the same items, however long it takes.
    """

    kinds: tuple[Sort, ...] = ("items",)

    def __init__(self, store: LongTermMemoryStore) -> None:
        self._store, self._at = store, time_ns() // 1_000_000

    def batches(self) -> Iterator[Batch]:
        """Yield all readable items."""
        return (("items", items) for items in iter_items(self._store, self._at, _ITEMS_AT_ONCE))

    def store(self, kind: Sort, records: Sequence[Any]) -> None:
        """Store items, in place of those with their names."""
        restore_items(self._store, records)


# An open store whose records are read or written in their order.
Place: TypeAlias = Messages | Items


class Writer:
    """Writes a stream of records, some at a time; a block, at whose end all is stored.

    A JSON file is written whole each time, so writes to it become rarer as it grows.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self.place_of: dict[Sort, Place] = {kind: each for each in places for kind in each.kinds}
        self.counts: Counter[Sort] = Counter(dict.fromkeys(self.place_of, 0))
        self._kind: Sort = "conversations"
        self._records: list[Any] = []
        self._keys: set[str] = set()
        self._bytes = 0

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Store what waits, unless there was an error."""
        if kind is None:
            self._flush()

    def write(self, kind: Sort, records: Sequence[Any], size: int) -> None:
        """Have records stored, which are about so many bytes of JSON; each id is there once."""
        keys = [key for record in records for key in _keys_of(record)]
        # Others may depend on the records of a kind, so these are stored before the next kind.
        if kind != self._kind or not self._keys.isdisjoint(keys):
            self._flush()
        self._kind = kind
        self._keys.update(keys)
        self._records += records
        self._bytes += size
        self.counts[kind] += len(records)
        waiting = len(self._records)
        place = self.place_of[kind]
        if isinstance(place, Messages) and isinstance(place.opened, JSONMessageStore):
            is_full = waiting >= max(_STORED_AT_ONCE, self.counts[kind] - waiting)
        else:
            is_full = waiting >= _STORED_AT_ONCE or self._bytes >= _BYTES_AT_ONCE
        if is_full:
            self._flush()

    def _flush(self) -> None:
        if self._records:
            place = self.place_of[self._kind]
            try:
                place.store(self._kind, self._records)
            except RecordTooLargeError:
                for record in self._records:
                    try:
                        place.store(self._kind, [record])
                    except RecordTooLargeError as error:
                        text = f"{name_of(record)} of the {self._kind}: {error}"
                        raise Refused(text) from None
        self._records, self._keys, self._bytes = [], set(), 0


class Digest:
    """The number of records, and a checksum of them in their order."""

    def __init__(self) -> None:
        self.count: int = 0
        self._hash = hashlib.sha256()

    def add(self, records: Sequence[Record]) -> int:
        """Add records, and return how many bytes of JSON they are."""
        lines = b"".join([canonical(record) + b"\n" for record in records])
        self.count += len(records)
        self._hash.update(lines)
        return len(lines)

    def __str__(self) -> str:
        """Return them, short enough to be compared by eye."""
        return f"{self.count:>10,} {self._hash.hexdigest()[:16]}"


def canonical(record: Record) -> bytes:
    """Return a record as a line of JSON that is equal for equal records.

    A back end may give back the names in free-form data in another order.
    """
    plain = Snapshot(record).json
    if isinstance(record, Conversation | Message) and not record.metadata:
        return plain
    return json.dumps(json.loads(plain), sort_keys=True, separators=(",", ":")).encode()


def name_of(record: Record) -> str:
    """Return what a user calls a record."""
    if isinstance(record, StoredItem):
        return f"{record.key!r} in {record.namespace!r}"
    return repr(record.id)  # type: ignore[attr-defined]


def names(counts: Mapping[Any, int]) -> str:
    """Return counts of things, by their names in the plural, in words."""
    return ", ".join(counted(count, kind.replace("_", " ")) for kind, count in counts.items())


def _keys_of(record: Any) -> tuple[str, ...]:
    """Return by what a record takes the place of another one of its kind."""
    if isinstance(record, StoredItem):
        return (path_of(record.namespace, record.key),)
    if isinstance(record, TurnTrace):  # of an id, and of a message
        return f"id {record.id}", f"message {record.message_id}"
    return (record.id,)


@contextmanager
def nothing_left_out() -> Iterator[None]:
    """Print which unreadable records a block leaves out; `Refused` at its end if there were any."""
    printed = _Printed(logging.ERROR)
    unreadable.logger.addHandler(printed)
    try:
        yield
    finally:
        unreadable.logger.removeHandler(printed)
    if printed.count:
        raise Refused(f"records that cannot be read were left out: {printed.count:,}, named above")


class _Printed(logging.Handler):
    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        say(record.getMessage())
