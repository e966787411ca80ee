"""Reading and deleting the items of a thread; `items` always has the async API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jazzmine.adapters.langgraph.checkpoints import (
    THREADS,
    Entry,
    key_after,
    key_before,
    values_of,
)
from jazzmine.errors import ConflictError
from jazzmine.records.items import DeleteItem, MemoryItem, PutItem

__all__ = [
    "copy_items",
    "delete",
    "delete_run",
    "delete_thread",
    "delete_unused_values",
    "entries_in",
    "namespaces_in",
]

_AT_ONCE = 200


async def entries_in(
    items: Any,
    place: tuple[str, ...],
    *,
    first: str | None = None,
    before: str | None = None,
    count: int | None = None,
) -> list[Entry]:
    """Return checkpoints of a namespace, the latest first, with their pending writes.

    Args:
        items: the long-term memory.
        place: the namespace of their items.
        first: the key of the first one; None is the latest.
        before: the key of one; only earlier ones are returned.
        count: how many at most; None is no limit.
    """
    key = key_before(first) if first else key_after(before) if before else None
    last = MemoryItem(namespace=place, key=key, value={}) if key else None
    # A checkpoint has few pending writes.
    size = _AT_ONCE if count is None else min(_AT_ONCE, 1 + 2 * count)
    entries: list[Entry] = []
    if count == 0:
        return entries
    while True:
        page = await items.list_items(place, limit=size, after=last)
        for item in page:
            if "/" not in item.key:
                if len(entries) == count:
                    return entries
                entries.append(Entry(item))
            elif entries and item.key.startswith(entries[-1].item.key):
                entries[-1].writes.append(item)
        if len(page) < size:
            return entries
        last = page[-1]


async def namespaces_in(items: Any, thread: str | None) -> list[tuple[str, ...]]:
    """Return the namespaces of checkpoints of a thread, or of all."""
    prefix = THREADS if thread is None else (*THREADS, thread, "checkpoints")
    return [place for place in await items.list_namespaces(prefix) if len(place) == 5]


async def copy_items(items: Any, source: str, target: str) -> None:
    """Copy all items of a thread; the values first, which the checkpoints refer to."""
    for part in ("values", "checkpoints"):
        last = None
        while page := await items.list_items((*THREADS, source, part), limit=_AT_ONCE, after=last):
            await items.apply(
                PutItem(
                    item.model_copy(update={"namespace": (*THREADS, target, *item.namespace[3:])})
                )
                for item in page
            )
            last = page[-1]


async def delete_thread(items: Any, thread: str) -> None:
    """Delete all items of a thread; the checkpoints first, which refer to the values."""
    for part in ("checkpoints", "values"):
        while page := await items.list_items((*THREADS, thread, part), limit=_AT_ONCE):
            await delete(items, page)


async def delete_run(items: Any, run_id: str) -> set[str]:
    """Delete the checkpoints of a run with their pending writes, and return their threads."""
    threads = set()
    while page := await items.list_items(THREADS, where={"run_id": run_id}, limit=_AT_ONCE):
        for item in page:
            threads.add(item.namespace[2])
            [entry] = await entries_in(items, item.namespace, first=item.key, count=1)
            await delete(items, [entry.item, *entry.writes])
    return threads


async def delete(items: Any, found: Iterable[MemoryItem]) -> None:
    """Delete items in one step."""
    await items.apply(DeleteItem(item.namespace, item.key) for item in found)


async def delete_unused_values(
    items: Any, thread: str, used_by: Callable[[MemoryItem], set[bytes]]
) -> None:
    """Delete the values of a thread that none of its checkpoints refers to.

    Args:
        items: the long-term memory.
        thread: the thread.
        used_by: returns the digests of the values of a checkpoint's item.
    """
    # Read before the checkpoints: what is stored from now on is not deleted.
    values = {item.key: item.revision for item in await items.list_items(values_of(thread))}
    for place in await namespaces_in(items, thread):
        for entry in await entries_in(items, place):
            for digest in used_by(entry.item):
                values.pop(digest.hex(), None)
    for key, revision in values.items():
        try:
            await items.delete(values_of(thread), key, expected_revision=revision)
        except ConflictError:
            # Stored again for another checkpoint.
            continue
