"""All records of a store, one after the other: read, compared, and stored in batches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

from jazzmine.cli.output import counted
from jazzmine.cli.places import Kind, Place, keys_of
from jazzmine.errors import NotFoundError
from jazzmine.records.base import Record, Snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.sync import MessageStore

__all__ = ["Batch", "Digest", "Records", "canonical", "conversations_of", "names"]

_STORED_AT_ONCE = 1_000
_BYTES_AT_ONCE = 2_000_000


def names(counts: Mapping[Any, int]) -> str:
    """Return counts of things, by their names in the plural, in words."""
    return ", ".join(counted(count, kind.replace("_", " ")) for kind, count in counts.items())


class Records:
    """The records of a kind in a place, in their order."""

    def __init__(self, place: Place, kind: Kind) -> None:
        self._place, self._kind = place, kind

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[Any]]:
        """Yield them some at a time; while the caller uses one batch, the next is read."""
        batches = self._place.batches(self._kind)
        # A back end may hold a connection until the iteration ends.
        with closing(batches), ThreadPoolExecutor(1) as thread:  # type: ignore[type-var]
            coming = thread.submit(next, batches, None)
            # A batch is empty if none of its records can be read.
            while (batch := coming.result()) is not None:
                coming = thread.submit(next, batches, None)
                yield batch


def conversations_of(store: MessageStore, user_id: str) -> Iterator[Conversation]:
    """Yield all conversations of a user, each once.

    One that is written to moves to the front of the list. So the list is read again from the front,
    until it has no new one: none is missed beside a user who goes on writing.
    """
    yielded: set[str] = set()
    count = -1
    while len(yielded) > count:
        count, after = len(yielded), None
        while page := _page_of(store, user_id, after):
            for conversation in page:
                if conversation.id not in yielded:
                    yielded.add(conversation.id)
                    yield conversation
            after = page[-1].id


def _page_of(store: MessageStore, user_id: str, after: str | None) -> list[Conversation]:
    try:
        return store.get_conversations_by_user_id(user_id, limit=_STORED_AT_ONCE, after=after)
    except NotFoundError:
        return []  # that one was deleted meanwhile: the list is read again


def canonical(record: Record) -> bytes:
    """Return a record as a line of JSON that is equal for equal records.

    A back end may give back the names in free-form data in another order.
    """
    plain = Snapshot(record).json
    if isinstance(record, Conversation | Message) and not record.metadata:
        return plain
    return json.dumps(json.loads(plain), sort_keys=True, separators=(",", ":")).encode()


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

    @property
    def checksum(self) -> str:
        """The checksum, short enough to be compared by eye."""
        return self._hash.hexdigest()[:16]


class Batch:
    """Records of one kind that wait to be stored together, by a thread; a context manager.

    Args:
        place: where they go. If each write costs as much as all that is stored there, writes
            become rarer as it grows.
        kind: which they are.
    """

    def __init__(self, place: Place, kind: Kind) -> None:
        self._place, self._kind = place, kind
        self._records: list[Any] = []
        self._keys: set[str] = set()
        self._bytes = 0
        self._storing: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1)
        self.stored: int = 0

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Store what waits, unless there was an error."""
        try:
            if kind is None:
                self.flush()
                self._settle()
        finally:
            self._thread.shutdown()

    def add(self, records: Sequence[Any], size: int) -> None:
        """Add records that nothing else has, each id once.

        Args:
            records: the records.
            size: about how many bytes of JSON they are.
        """
        keys = [key for record in records for key in keys_of(record)]
        if not self._keys.isdisjoint(keys):
            self.flush()
        self._keys.update(keys)
        self._records += records
        self._bytes += size
        if self._place.is_rewritten:
            is_full = len(self._records) >= max(_STORED_AT_ONCE, self.stored)
        else:
            is_full = len(self._records) >= _STORED_AT_ONCE or self._bytes >= _BYTES_AT_ONCE
        if is_full:
            self.flush()

    def flush(self) -> None:
        """Have what waits stored, after what was before it."""
        self._settle()
        if self._records:
            self._storing = self._thread.submit(self._place.store, self._kind, self._records)
            self.stored += len(self._records)
        self._records, self._keys, self._bytes = [], set(), 0

    def _settle(self) -> None:
        storing, self._storing = self._storing, None
        if storing is not None:
            storing.result()
