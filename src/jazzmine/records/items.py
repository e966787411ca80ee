"""The items of a long-term memory, and their changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

from pydantic import ConfigDict, Field, Strict

from jazzmine.records.base import Record
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.records.types import MAX_PARTS, Id, Int64, JsonObject

__all__ = [
    "DeleteItem",
    "FoundItem",
    "MemoryItem",
    "PutItem",
]

Namespace: TypeAlias = Annotated[tuple[Id, ...], Field(min_length=1, max_length=MAX_PARTS)]


class MemoryItem(Record):
    """A value that an agent keeps beyond one conversation.

    Attributes:
        namespace: 1 to 16 parts, such as `("users", "ann", "facts")`.
        key: its name in the namespace.
        value: a JSON object; lists and searches read it.
        data: bytes, such as a file.
        user_id: the user; erasing the user deletes the item.
        source_message_id: the message that it was taken from.
        created_at, updated_at: ms since the Unix epoch, UTC; the store sets them.
        expires_at: the time after which it is invisible, in ms; None is never.
        revision: another number after each change, never repeated for a key; the store sets it.
            0 in a new item.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        ser_json_bytes="base64", val_json_bytes="base64"
    )

    moments: ClassVar[tuple[str, ...]] = ("expires_at",)

    namespace: Namespace
    key: Id
    value: JsonObject
    data: Annotated[bytes, Strict()] | None = None
    user_id: Id | None = None
    source_message_id: Id | None = None
    created_at: Int64 = 0
    updated_at: Int64 = 0
    expires_at: Int64 | None = None
    revision: Int64 = 0


@dataclass(frozen=True)
class PutItem:
    """Stores an item in place of the one with its namespace and key.

    Args:
        item: the store sets its times and its revision.
        expected_revision: the revision of the stored item; None if there must be no item; by
            default any.
        texts: a store with `embed` makes a vector of each; by default of one text of all strings
            in `value`. A search takes the nearest of them.
    """

    item: MemoryItem
    expected_revision: int | AnyMessage | None = ANY
    texts: Sequence[str] | None = None


@dataclass(frozen=True)
class DeleteItem:
    """Deletes an item.

    Args:
        namespace: the namespace of the item.
        key: its key.
        expected_revision: as in `PutItem`.
    """

    namespace: Sequence[str]
    key: str
    expected_revision: int | AnyMessage | None = ANY


@dataclass(frozen=True)
class FoundItem:
    """An item that was found by a search, and how well it matches.

    Args:
        item: the item.
        score: higher is better, and comparable within one search only; of a search by vectors it
            is the cosine.
    """

    item: MemoryItem
    score: float
