"""The data and the options of the smallest back end; its store is `_async/toy_store.py`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from jazzmine import Conversation, IntegrityError, Message, NotFoundError, TurnTrace
from jazzmine.config import BackendConfig
from jazzmine.records.base import Record
from jazzmine.records.conversation_log import Newest

__all__ = ["Tables", "ToyConfig", "ToyData"]

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
        rows.sort(key=lambda row: row["timestamp"])
        ids = [None, *(row["id"] for row in rows)]
        if after not in ids:
            raise NotFoundError(f"{after!r} is no message of the conversation")
        return rows[ids.index(after) :]

    def newest(self, conversation_id: str) -> Newest | None:
        """Return the id and the time of the newest message, or None."""
        rows = self.messages(conversation_id)
        return Newest(rows[-1]["id"], rows[-1]["timestamp"]) if rows else None

    def put(self, record: Record) -> None:
        """Store a record, in place of the one with its id."""
        kind, row = type(record), record.model_dump(mode="json")
        owner, field = _OWNERS.get(kind, (kind, ""))
        if field and row[field] not in self[owner]:
            name = owner.__name__.lower()
            raise IntegrityError(f"the {name} {row[field]!r} is not stored; store the {name} first")
        if kind is TurnTrace:
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
        self._lock = threading.Lock()

    @contextmanager
    def changes(self) -> Iterator[Tables]:
        """Enter a block with copies of the tables, which take their place unless it raises."""
        with self._lock:
            tables = Tables({kind: dict(rows) for kind, rows in self.tables.items()})
            yield tables
            self.tables = tables


@dataclass(frozen=True)
class ToyConfig(BackendConfig):
    """The options: its fields are the keys of a configuration."""

    storage: ClassVar[str] = "toy"

    data: ToyData
