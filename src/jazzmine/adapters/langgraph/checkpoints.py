"""How the checkpoints of a thread are stored as items: their namespaces, keys and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from jazzmine.records.items import MemoryItem

#: The namespace of all threads. In it, "values" is after "checkpoints".
THREADS = ("langgraph", "threads")

#: How many elements of a list make an item of their own.
_CHUNK = 32

#: The digests of the items that a channel's value is in: one, or those of the parts of a list.
Reference = Sequence[bytes]

#: The versions of the channels of a checkpoint, and what refers to their values.
KnownCheckpoint = tuple[Mapping[str, Any], Mapping[str, Reference]]


@dataclass
class Entry:
    """The item of a checkpoint, and those of its pending writes."""

    item: MemoryItem
    writes: list[MemoryItem] = field(default_factory=list)


def checkpoints_of(thread: str, namespace: str) -> tuple[str, ...]:
    """Return the namespace of the items of checkpoints; a root graph has the namespace ""."""
    return (*THREADS, thread, "checkpoints", f"/{namespace}")


def values_of(thread: str) -> tuple[str, ...]:
    """Return the namespace of the values of a thread's channels."""
    return (*THREADS, thread, "values")


def checkpoint_key(checkpoint_id: str) -> str:
    """Return the key of a checkpoint: keys sort as the ids do, but the latest first.

    The complement of each byte reverses the order; the "g", which is after all digits, is where
    one id is the beginning of another. The keys of pending writes begin with that of their
    checkpoint and a slash, so that they follow it.
    """
    return bytes(255 - byte for byte in checkpoint_id.encode()).hex() + "g"


def key_before(key: str) -> str:
    """Return what sorts before the key of a checkpoint, and after those of all later ones."""
    return f"{key[:-1]}fg"


def key_after(key: str) -> str:
    """Return what sorts after a checkpoint's key and its writes', and before earlier ones."""
    return f"{key}0"


def encoded(serde: SerializerProtocol, value: Any) -> bytes:
    """Return the bytes of a value, after the name of their type."""
    kind, payload = serde.dumps_typed(value)
    return kind.encode() + b"\0" + payload


def decoded(serde: SerializerProtocol, data: bytes | None) -> Any:
    """Return the value that `encoded` returned the bytes of."""
    kind, _, payload = (data or b"").partition(b"\0")
    return serde.loads_typed((kind.decode(), payload))


def parts_of(value: Any) -> Sequence[Any]:
    """Return the parts of a value that are in items of their own: several of a long list."""
    if type(value) is not list or len(value) <= _CHUNK:
        return [value]
    return [value[first : first + _CHUNK] for first in range(0, len(value), _CHUNK)]


def is_inline(value: Any) -> bool:
    """Return whether a channel's value is in the checkpoint: an item would be larger."""
    return (
        value is None
        or type(value) in (bool, int, float)
        or (type(value) is str and len(value) <= 64)
    )


def add_value(serde: SerializerProtocol, value: Any, added: dict[bytes, bytes]) -> Reference:
    """Add the bytes of a value under their digests, and return what refers to them.

    So a value is stored once, whichever versions and branches have it, and no branch can overwrite
    the value of another. A list is in parts of some elements each: one that has grown shares all
    but the last of them with what it was.
    """
    parts = [encoded(serde, part) for part in parts_of(value)]
    names = [blake2b(part, digest_size=16).digest() for part in parts]
    added.update(zip(names, parts, strict=True))
    return names


def writes_in(serde: SerializerProtocol, item: MemoryItem) -> dict[int, tuple[str, Any]]:
    """Return the channel and the value of each write in an item, by its index."""
    writes = decoded(serde, item.data) if item.data else ()
    return {index: (channel, value) for index, channel, value in writes}
