"""What a saver has stored or read last, so that it need not be stored or read again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol

from jazzmine.adapters.langgraph.checkpoints import Reference

__all__ = ["Known", "KnownCheckpoint", "Storage"]

_CHECKPOINTS = 256
_BYTES_OF_VALUES = 16_000_000


class KnownCheckpoint(NamedTuple):
    """The versions of the channels of a checkpoint, and what refers to their values."""

    versions: Mapping[str, Any]
    values: Mapping[str, Reference]


_NOTHING = KnownCheckpoint({}, {})


class Known:
    """The checkpoints that were stored or read last, and the bytes of values.

    A digest stands for its bytes, so what is known is never out of date; a checkpoint tells
    whether a value is still one of the thread.
    """

    def __init__(self) -> None:
        self._checkpoints: OrderedDict[tuple[str, str, str], KnownCheckpoint] = OrderedDict()
        self._values: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def checkpoint(self, thread: str, namespace: str, checkpoint_id: str | None) -> KnownCheckpoint:
        """Return what is known of a checkpoint."""
        return self._checkpoints.get((thread, namespace, checkpoint_id or ""), _NOTHING)

    def add_checkpoint(self, place: tuple[str, str, str], checkpoint: KnownCheckpoint) -> None:
        """Add the checkpoint of a thread, a namespace and an id."""
        with self._lock:
            self._checkpoints[place] = checkpoint
            self._checkpoints.move_to_end(place)
            while len(self._checkpoints) > _CHECKPOINTS:
                self._checkpoints.popitem(last=False)

    def values(self, thread: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return those values of a thread that are known."""
        with self._lock:
            known = [digest for digest in digests if (thread, digest) in self._values]
            for digest in known:
                self._values.move_to_end((thread, digest))
            return {digest: self._values[thread, digest] for digest in known}

    def add_values(self, thread: str, values: Mapping[bytes, bytes]) -> None:
        """Add values of a thread, and forget those that were used longest ago."""
        with self._lock:
            for digest, data in values.items():
                if (thread, digest) not in self._values:
                    self._values[thread, digest] = data
                    self._size += len(data)
            while self._size > _BYTES_OF_VALUES:
                self._size -= len(self._values.popitem(last=False)[1])

    def forget(self) -> None:
        """Forget all, before values are deleted."""
        with self._lock:
            self._checkpoints.clear()
            self._values.clear()
            self._size = 0


@dataclass(frozen=True)
class Storage:
    """A long-term memory with the async API, LangGraph's serializer, and what is known of both."""

    items: Any
    serde: SerializerProtocol
    known: Known
