"""Changes, queries, outcomes and rows of items, between a long-term memory and its back end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import Strict, ValidationError
from pydantic_core import from_json, to_json

from jazzmine.errors import ConflictError
from jazzmine.records.encrypted import encrypted_text, encrypted_without_keys
from jazzmine.records.item_paths import split_path
from jazzmine.records.items import MemoryItem
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.records.unreadable import Unreadable, unreadable

Order: TypeAlias = Literal["key", "updated"]
Reads: TypeAlias = Literal["items", "values", "vectors", "all"]

ItemRow: TypeAlias = Sequence[Any]
"""A stored item: its path (a str, or UTF-8), its value (JSON, or a dict), its data, user_id,
source_message_id, created_at, updated_at, expires_at and revision; and its vector, if all was read.
"""


class StoredItem(MemoryItem):
    """A stored item with its vector for searches, for programs that move it."""

    always_stored: ClassVar[frozenset[str]] = frozenset({"created_at", "updated_at", "revision"})

    vector: Annotated[bytes, Strict()] | None = None


@dataclass(frozen=True)
class ItemChange:
    """A change of the item at a path, which has the revision `expected`: None is no item.

    Without `item` it is deleted; no other code refers to `item`.
    """

    path: str
    expected: int | AnyMessage | None
    item: MemoryItem | None = None
    vector: bytes | None = None

    def value_json(self) -> bytes:
        """Return the value of the item as JSON."""
        assert self.item is not None
        return to_json(self.item.value)

    def stored(self) -> Stored:
        """Return what a store has set in the item before."""
        assert self.item is not None
        return Stored(self.item.revision, self.item.created_at, self.item.updated_at)


class Stored(NamedTuple):
    """The values that the store has set in an item."""

    revision: int
    created_at: int
    updated_at: int


@dataclass(frozen=True)
class ItemConflict:
    """A refused change: the item has another revision; None if there is no item."""

    index: int
    revision: int | None


@dataclass(frozen=True)
class ItemVersion:
    """Another form of an item with this revision: "value" (an object) and "data", or "vector"."""

    path: str
    revision: int
    parts: Mapping[str, Any]


Outcome: TypeAlias = "Stored | bool"
"""What became of a change: what was set, or whether there was an item to delete."""


class Renewal(NamedTuple):
    """A new expiry of the item at a path, if the item still has a revision."""

    path: str
    revision: int
    expires_at: int | None


class Cursor(NamedTuple):
    """The sort key of the last item of a page."""

    path: str
    updated_at: int
    revision: int


@dataclass(frozen=True)
class ItemQuery:
    """A query for a list of items.

    The `prefix` is as `namespace_path` returns it, and None any user or source. Items that expired
    before `at` are left out, in ms; None is now. The order "updated" is newest first, equal ones by
    `revision`. Of the columns, "values" leaves out the data; "vectors" gives only items with a
    vector, in place of the data, and {} in place of the value; "all" gives longer rows, which end
    with the vector.
    """

    prefix: str = ""
    where: Mapping[str, Any] | None = None
    user_id: str | None = None
    source_message_id: str | None = None
    order: Order = "key"
    reads: Reads = "items"
    at: int | None = None


class ItemDecoder:
    """Converts rows to items, and logs each unreadable one once."""

    def __init__(self) -> None:
        self._unreadable = Unreadable()

    def item(self, row: ItemRow) -> MemoryItem:
        """Return the item of a row.

        Raises:
            ValidationError: it cannot be read; the text names the item, and says what to do.
            DecryptionError: it is encrypted.
        """
        path, _, data, user_id, source, created_at, updated_at, expires_at, revision = row
        namespace, key = split_path(_text(path))
        try:
            return MemoryItem(
                namespace=namespace,
                key=key,
                value=self.value(row),
                data=data,
                user_id=user_id and _text(user_id),
                source_message_id=source and _text(source),
                created_at=created_at,
                updated_at=updated_at,
                expires_at=expires_at,
                revision=revision,
            )
        except ValidationError as error:
            raise unreadable(MemoryItem, "/".join((*namespace, key)), error) from None

    def value(self, row: ItemRow) -> Any:
        """Return the unvalidated value of a row; raise `DecryptionError` if it is encrypted."""
        value = row[1] if isinstance(row[1], dict) else _parsed(row[1])
        encrypted = encrypted_text(value)
        if encrypted is not None:
            namespace, key = split_path(path_text(row))
            raise encrypted_without_keys(f"the item {key!r} of {namespace!r}", encrypted)
        return value

    def items(self, rows: Sequence[ItemRow]) -> list[MemoryItem]:
        """Return the items of rows; log and leave out the unreadable ones."""
        return list(self._unreadable.readable(rows, self.item))

    def stored_items(self, rows: Sequence[ItemRow]) -> list[StoredItem]:
        """Return the stored items of rows that were read with "all"."""
        return list(self._unreadable.readable(rows, self._stored_item))

    def _stored_item(self, row: ItemRow) -> StoredItem:
        *fields, vector = row
        return StoredItem.model_construct(**dict(self.item(fields)), vector=vector)


def cursor_of(row: ItemRow) -> Cursor:
    """Return the cursor after a row."""
    return Cursor(_text(row[0]), row[6], row[8])


def path_text(row: ItemRow) -> str:
    """Return the path of a row."""
    return _text(row[0])


def is_expected(expected: int | AnyMessage | None, found: int | None) -> bool:
    """Return whether a change may be made at this revision (None: there is no item)."""
    return expected is ANY or expected == found


def item_conflict(path: str, expected: int | AnyMessage | None, found: int | None) -> ConflictError:
    """Return the error of a change that expects another revision."""
    namespace, key = split_path(path)
    state = "is not stored" if found is None else f"has revision {found}"
    wanted = "none was" if expected is None else f"revision {expected} was"
    return ConflictError(
        f"the item {key!r} of {namespace!r} {state}, where {wanted} expected; nothing was changed"
    )


def row_owner(row: ItemRow) -> str | None:
    """Return the user of the item of a row."""
    return None if row[3] is None else _text(row[3])


def row_revision(row: ItemRow) -> int:
    """Return the revision of the item of a row."""
    return int(row[8])


def _text(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else str(stored, "utf-8", "replace")


def _parsed(value: str | bytes) -> Any:
    """Return a value in JSON; for malformed JSON a value that pydantic refuses."""
    try:
        return from_json(value, allow_inf_nan=False)
    except ValueError:
        return value
