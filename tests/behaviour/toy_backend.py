"""The data and the options of the smallest back end; its store is `_async/toy_store.py`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

import jazzmine.config
from jazzmine import Conversation, IntegrityError, Message, TurnTrace
from jazzmine._async.message_store import factory as async_factory
from jazzmine._sync.message_store import factory as sync_factory
from jazzmine.config import BackendConfig
from jazzmine.records.base import Record

__all__ = ["Row", "ToyConfig", "ToyData", "toy_storage"]

_OWNERS: dict[type[Record], tuple[type[Record], str]] = {
    Message: (Conversation, "conversation_id"),
    TurnTrace: (Message, "message_id"),
}


class Row(NamedTuple):
    """A record as JSON data, and its number in the order in which ids were first stored."""

    raw: dict[str, Any]
    number: int


class ToyData:
    """All records of a place, which the stores that are open on it share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._numbers = count()
        self.clear()

    def clear(self) -> None:
        """Delete everything."""
        self.tables: dict[type[Record], dict[str, Row]] = {
            kind: {} for kind in (Conversation, Message, TurnTrace)
        }

    def rows(self, kind: type[Record], where: Mapping[str, object], order: str = "") -> list[Row]:
        """Return the rows with these values, sorted by a field and then by their numbers."""
        with self.lock:
            rows = list(self.tables[kind].values())
        found = [row for row in rows if all(row.raw.get(key) == where[key] for key in where)]
        return sorted(found, key=lambda row: (row.raw.get(order, 0), row.number))

    def store(self, records: Iterable[Record]) -> None:
        """Store all of the records or none."""
        with self.lock:
            before = {kind: dict(table) for kind, table in self.tables.items()}
            try:
                for record in records:
                    raw = record.model_dump(mode="json")
                    self._make_room(type(record), raw)
                    self.put(type(record), raw)
            except IntegrityError:
                self.tables = before
                raise

    def _make_room(self, kind: type[Record], raw: dict[str, Any]) -> None:
        if kind in _OWNERS:
            owner, field = _OWNERS[kind]
            if raw[field] not in self.tables[owner]:
                raise IntegrityError(f"{owner.__name__} {raw[field]!r} is not stored")
        if kind is TurnTrace:
            known = self.tables[kind].get(raw["id"])
            if known is None:
                self.delete(kind, {"message_id": raw["message_id"]})
            elif known.raw["message_id"] != raw["message_id"]:
                raise IntegrityError(f"trace {raw['id']!r} belongs to another message")

    def put(self, kind: type[Record], raw: dict[str, Any]) -> None:
        """Store a record without any check; a known id keeps its number."""
        with self.lock:
            table, key = self.tables[kind], raw.get("id", "")
            table[key] = Row(raw, table[key].number if key in table else next(self._numbers))

    def delete(self, kind: type[Record], where: Mapping[str, object]) -> bool:
        """Delete the rows with these values and what belongs to them; False if there are none."""
        with self.lock:
            rows = self.rows(kind, where)
            for row in rows:
                del self.tables[kind][row.raw["id"]]
                for child, (owner, field) in _OWNERS.items():
                    if owner is kind:
                        self.delete(child, {field: row.raw["id"]})
            return bool(rows)


@dataclass(frozen=True)
class ToyConfig(BackendConfig):
    """The options: its fields are the keys of a configuration."""

    storage: ClassVar[str] = "toy"
    schemes: ClassVar[tuple[str, ...]] = ()

    data: ToyData

    @classmethod
    def from_url(cls, url: str) -> ToyConfig:
        raise NotImplementedError("it has no scheme")


@contextmanager
def toy_storage(folder: Path) -> Iterator[dict[str, object]]:
    """Put the back end into the library's tables for a block, whose value configures a store."""
    stores = {
        api: {ToyConfig: (f"tests.behaviour.{api}.toy_store", "ToyMessageStore")}
        for api in ("_async", "_sync")
    }
    kinds = (*jazzmine.config._MESSAGE_STORES, ToyConfig)
    with (
        patch.object(jazzmine.config, "_MESSAGE_STORES", kinds),
        patch.dict(async_factory._STORES, stores["_async"]),
        patch.dict(sync_factory._STORES, stores["_sync"]),
    ):
        yield {"storage": "toy", "data": ToyData()}
