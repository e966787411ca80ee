"""Which checkpoints there are, with their pending writes; `items` always has the async API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import islice
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

Places: TypeAlias = list[tuple[tuple[str, ...], str]]

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


async def places_in(
    items: Any, thread: str | None, wanted: str | None, before: str | None, count: int | None
) -> list[Places]:
    """Return where the checkpoints of all namespaces are, the latest first.

    Args:
        items: the long-term memory.
        thread: the thread; None is all.
        wanted: the key of those that are wanted; None is any.
        before: the key of one; only earlier ones are returned.
        count: if that many of all threads suffice, those that were stored last; None is all.

    Returns:
        For each checkpoint the namespace and the key of its item, and those of its writes.
    """
    found: list[Places] = []
    if thread is None and count is not None:
        async for page in pages(items, THREADS, order="updated", with_data=False):
            found += [[_place(item)] for item in page if _is_checkpoint(item)]
            if len(found) >= count:
                break
        del found[count:]
        for places in found:
            namespace, key = places[0]
            for entry in await entries_in(items, namespace, first=key, count=1):
                places += map(_place, entry.writes)
    else:
        prefix = THREADS if thread is None else (*THREADS, thread, "checkpoints")
        async for page in pages(items, prefix, with_data=False):
            for item in page:
                if _is_checkpoint(item):
                    found.append([_place(item)])
                elif (
                    found
                    and item.namespace == found[-1][0][0]
                    and item.key.startswith(found[-1][0][1])
                ):
                    found[-1].append(_place(item))
    return sorted(
        (
            places
            for places in found
            if wanted in (None, places[0][1]) and (before is None or places[0][1] > before)
        ),
        key=lambda places: places[0][1],
    )


def _place(item: MemoryItem) -> tuple[tuple[str, ...], str]:
    return item.namespace, item.key


def _is_checkpoint(item: MemoryItem) -> bool:
    return item.namespace[3] == "checkpoints" and "/" not in item.key


async def entries_at(items: Any, found: Sequence[Places]) -> list[Entry]:
    """Return the checkpoints that `places_in` has found, without those that are deleted since."""
    stored = iter(await items.get_many(place for places in found for place in places))
    entries = []
    for places in found:
        item, *writes = islice(stored, len(places))
        if item is not None:
            entries.append(Entry(item, [write for write in writes if write is not None]))
    return entries


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
