"""The items of a long-term memory, and the changes of them."""

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
    """Something that an agent keeps beyond one conversation.

    Attributes:
        namespace: where it belongs: 1 to 16 parts, such as `("users", "ann", "facts")`.
        key: its name there.
        value: what is listed and searched by.
        data: bytes that belong to it, such as a file.
        user_id: whose it is; erasing the user deletes it.
        source_message_id: the message that it was taken from.
        created_at, updated_at: ms since the Unix epoch, UTC; the store sets them.
        expires_at: from when on it is not there any more, in ms; None is never.
        revision: another number after each change, never the same again for its key; the store
            sets it. 0 if it was not read from a store.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        ser_json_bytes="base64", val_json_bytes="base64"
    )

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
        item: its times and its revision are the store's.
        expected_revision: that of the stored item; None if there must be none; by default any.
        texts: what a store with `embed` makes vectors of, one of each; by default one text of all
            strings in `value`. A search takes the nearest of them.
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
        score: higher is better; it can be compared within one search only, except that of a
            search by vectors, which is the cosine.
    """

    item: MemoryItem
    score: float
