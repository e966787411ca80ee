"""The data and the options of the smallest back end; its store is `toy_store.py`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar
from uuid import UUID

from jazzmine import Conversation, IntegrityError, Message, NotFoundError, TurnTrace
from jazzmine.config import BackendConfig
from jazzmine.records.base import Record
from jazzmine.records.conversation_log import forked_id
from jazzmine.records.rows import Row as StoredRow

Row = dict[str, Any]

# What a record belongs to, and the field that says to which one.
_OWNERS: dict[type[Record], tuple[type[Record], str]] = {
    Message: (Conversation, "conversation_id"),
    TurnTrace: (Message, "message_id"),
}


class Tables(dict[type[Record], dict[str, Row]]):
    """The rows of each class by their ids, in the order in which the ids were first stored."""

    def rows(self, kind: type[Record], **where: object) -> list[Row]:
        """Return the rows with these values."""
        return [row for row in self[kind].values() if where.items() <= row.items()]

    def messages(self, conversation_id: str, after: str | None = None) -> list[Row]:
        """Return the rows of a conversation's messages in their order, or those after one."""
        rows = self.rows(Message, conversation_id=conversation_id)
        rows.sort(key=lambda row: row.get("timestamp", 0))
        ids = [None, *(row["id"] for row in rows)]
        if after not in ids:
            raise NotFoundError(f"{after!r} is no message of the conversation")
        return rows[ids.index(after) :]

    def sorted(self, kind: type[Record], order: str, **where: object) -> list[Row]:
        """Return the rows with these values, ascending by a field."""
        return sorted(self.rows(kind, **where), key=lambda row: row.get(order, 0))

    def fork(self, messages: Sequence[Row], owner: str, salt: UUID) -> dict[str, str]:
        """Store copies of messages, and of their traces, in another conversation."""
        ids = {row["id"]: forked_id(salt, row["id"]) for row in messages}
        for row in messages:
            self[Message][ids[row["id"]]] = {**row, "id": ids[row["id"]], "conversation_id": owner}
        for row in self.rows(TurnTrace):
            if row["message_id"] in ids:
                new_id = forked_id(salt, row["id"])
                moved = {"id": new_id, "message_id": ids[row["message_id"]]}
                moved |= {"conversation_id": owner, "copied_from": row["id"]}
                self[TurnTrace][new_id] = {**row, **moved}
        return ids

    def put(self, record: Record) -> None:
        """Store a record, in place of the one with its id."""
        kind, row = type(record), record.model_dump(mode="json")
        owner, field = _OWNERS.get(kind, (kind, ""))
        if field and row[field] not in self[owner]:
            name = owner.__name__.lower()
            raise IntegrityError(f"the {name} {row[field]!r} is not stored; store the {name} first")
        stored = self[kind].get(row["id"], row)
        if kind is Message and stored["conversation_id"] != row["conversation_id"]:
            raise IntegrityError(f"message {row['id']!r} is stored in another conversation")
        if kind is TurnTrace:
            message = self[Message][row["message_id"]]
            if message["conversation_id"] != row["conversation_id"]:
                owner_id = row["conversation_id"]
                raise IntegrityError(f"the message of trace {row['id']!r} is not in {owner_id!r}")
            if self[kind].get(row["id"], row)["message_id"] != row["message_id"]:
                raise IntegrityError(f"trace {row['id']!r} belongs to another message")
            for other in self.rows(kind, message_id=row["message_id"]):
                if other["id"] != row["id"]:
                    self.remove(kind, other["id"])
        self[kind][row["id"]] = row

    def remove(self, kind: type[Record], id: str) -> bool:
        """Delete a row and those that belong to it; return whether it was there."""
        for child, (owner, field) in _OWNERS.items():
            for row in self.rows(child, **{field: id}) if owner is kind else ():
                self.remove(child, row["id"])
        return self[kind].pop(id, None) is not None


class ToyData:
    """The tables, which the stores that are open on them share; rows are never changed."""

    def __init__(self) -> None:
        self.tables = Tables({Conversation: {}, Message: {}, TurnTrace: {}})
        # Every message that was ever stored, in the order of their first time.
        self.numbers: dict[str, int] = {}
        self._next_numbers = count()
        self._lock = threading.Lock()

    @contextmanager
    def changes(self) -> Iterator[Tables]:
        """Enter a block with copies of the tables, which take their place unless it raises."""
        with self._lock:
            tables = Tables({kind: dict(rows) for kind, rows in self.tables.items()})
            yield tables
            self.numbers, self.tables = self._numbered(tables), tables

    def _numbered(self, tables: Tables) -> dict[str, int]:
        """Return the numbers of messages; one that was deleted and is stored again gets another."""
        numbers, last = dict(self.numbers), -1
        for id in tables[Message]:
            if id not in self.tables[Message] or numbers[id] < last:
                numbers[id] = next(self._next_numbers)
            last = numbers[id]
        return numbers


@dataclass(frozen=True)
class ToyConfig(BackendConfig):
    """The options: its fields are the keys of a configuration."""

    storage: ClassVar[str] = "toy"

    data: ToyData


def rows_of(found: Sequence[Row]) -> list[StoredRow]:
    """Return rows as the store reads them."""
    return [(row.get("id"), row) for row in found]


def page(
    found: Sequence[Row],
    limit: int | None,
    after: str | None,
    wanted: Callable[[Row], bool] = lambda row: True,
) -> list[StoredRow]:
    """Return a page of a listing.

    Args:
        found: all rows of the listing.
        limit: how many at most; None is no limit.
        after: the id of the row that the page begins after; None for the first page.
        wanted: which of the rows are in the page.
    """
    ids = [None, *(row.get("id") for row in found)]
    if after not in ids:
        raise NotFoundError(f"after={after!r} is no record of this listing")
    return rows_of([row for row in found[ids.index(after) :] if wanted(row)])[:limit]
