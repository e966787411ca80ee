"""Which checkpoints there are, with their pending writes; `items` always has the async API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

from jazzmine.adapters.langgraph.checkpoints import THREADS, Entry, key_after, key_before
from jazzmine.records.items import MemoryItem, PutItem

__all__ = [
    "AT_ONCE",
    "copy_items",
    "entries_at",
    "entries_in",
    "namespaces_in",
    "pages",
    "places_in",
]

Place: TypeAlias = tuple[tuple[str, ...], str]

#: How many items are read, or changed in one transaction.
AT_ONCE = 200


async def entries_in(
    items: Any,
    place: tuple[str, ...],
    *,
    first: str | None = None,
    before: str | None = None,
    count: int | None = None,
) -> list[Entry]:
    """Return checkpoints of a namespace, the latest first, with their pending writes."""
    key = key_before(first) if first else key_after(before) if before else None
    last = MemoryItem(namespace=place, key=key, value={}) if key else None
    # Most checkpoints have few pending writes.
    size = AT_ONCE if count is None else min(AT_ONCE, 1 + 2 * count)
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
        # This one has many: a step of many tasks.
        last, size = page[-1], AT_ONCE


async def entries_at(items: Any, place: tuple[str, ...], key: str) -> list[Entry]:
    """Return the checkpoint of a namespace and a key with its pending writes, or none."""
    found = await entries_in(items, place, first=key, count=1)
    return [entry for entry in found if entry.item.key == key]


async def places_in(items: Any, prefix: tuple[str, ...], count: int | None) -> list[Place]:
    """Return the namespaces and the keys of checkpoints, the latest first.

    Args:
        items: the long-term memory.
        prefix: the first parts of their namespaces.
        count: how many of those that were stored last; None is all.
    """
    order = "key" if count is None else "updated"
    found: list[Place] = []
    async for page in pages(items, prefix, order=order, with_data=False):
        found += [
            (item.namespace, item.key)
            for item in page
            if item.namespace[3] == "checkpoints" and "/" not in item.key
        ]
        if count is not None and len(found) >= count:
            break
    return sorted(found[:count], key=lambda place: place[1])


async def namespaces_in(items: Any, thread: str) -> list[tuple[str, ...]]:
    """Return the namespaces of checkpoints of a thread."""
    places: list[tuple[str, ...]] = await items.list_namespaces((*THREADS, thread, "checkpoints"))
    return places


async def copy_items(items: Any, source: str, target: str) -> None:
    """Copy all items of a thread; the values first, which the checkpoints refer to.

    The checkpoints are read before the values: so those that a run stores meanwhile are not copied
    without theirs.
    """
    checkpoints = [page async for page in pages(items, (*THREADS, source, "checkpoints"))]
    async for page in pages(items, (*THREADS, source, "values")):
        await _put_copies(items, page, target)
    for page in checkpoints:
        await _put_copies(items, page, target)


async def pages(
    items: Any, prefix: tuple[str, ...], **options: Any
) -> AsyncIterator[list[MemoryItem]]:
    """Yield the items below a namespace, as `list_items` does, so many at once."""
    last = None
    while page := await items.list_items(prefix, limit=AT_ONCE, after=last, **options):
        yield page
        if len(page) < AT_ONCE:
            return
        last = page[-1]


async def _put_copies(items: Any, page: Sequence[MemoryItem], target: str) -> None:
    places = ((item, (*THREADS, target, *item.namespace[3:])) for item in page)
    await items.apply(
        PutItem(item.model_copy(update={"namespace": place})) for item, place in places
    )
