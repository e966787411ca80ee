"""Deleting and copying checkpoints, pending writes and values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from jazzmine.adapters._calls import require_several
from jazzmine.adapters.langgraph.checkpoints import THREADS, decoded, key_after, values_of
from jazzmine.adapters.langgraph.configs import text_id
from jazzmine.adapters.langgraph.storage import AT_ONCE, Storage
from jazzmine.records.items import DeleteItem, MemoryItem, PutItem


async def delete_thread(storage: Storage, thread: str) -> None:
    """Delete all items of a thread; the checkpoints first, which refer to the values."""
    storage.known.clear()
    for part in ("checkpoints", "values"):
        async for page in storage.pages((*THREADS, thread, part), with_data=False):
            await _delete(storage, page)


async def delete_runs(storage: Storage, run_ids: Iterable[str]) -> None:
    """Delete the checkpoints of runs."""
    require_several(run_ids, "run_ids")
    threads = set()
    for run_id in run_ids:
        # No index has the runs: this reads the metadata of all threads, once.
        where = {"run_id": str(run_id)}
        async for page in storage.pages(THREADS, with_data=False, where=where):
            for item in page:
                threads.add(item.namespace[2])
                for entry in await storage.entries_at(item.namespace, item.key):
                    await _delete(storage, [entry.item, *entry.writes])
    for thread in sorted(threads):
        await _delete_unused_values(storage, thread)


async def keep_latest(storage: Storage, thread: str) -> None:
    """Delete all but the latest checkpoint of each namespace, and what it needs."""
    for place in await _namespaces(storage, thread):
        kept = await _needed(storage, place)
        last = MemoryItem(namespace=place, key=key_after(min(kept, default="")), value={})
        current = ""
        async for page in storage.pages(place, after=last, with_data=False):
            unused = []
            for item in page:
                current = current if "/" in item.key else item.key
                # A task may have written before a checkpoint that was never stored.
                if current not in kept and item.key.startswith(current or "/"):
                    unused.append(item)
            await _delete(storage, unused)
    await _delete_unused_values(storage, thread)


async def _needed(storage: Storage, place: tuple[str, ...]) -> set[str]:
    """Return the keys of the latest checkpoint, and of those that its delta channels begin with."""
    kept: set[str] = set()
    wanted: set[str] | None = None
    async for entry, record in storage.line(place, None):
        kept.add(entry.item.key)
        if wanted is None:
            wanted = set(record["metadata"].get("counters_since_delta_snapshot") or {})
        wanted = wanted - record["values"].keys() - record["inline"].keys()
        if not wanted:
            break
    return kept


async def _delete_unused_values(storage: Storage, thread: str) -> None:
    """Delete the values of a thread that none of its checkpoints refers to."""
    storage.known.clear()
    # Read before the checkpoints: what is stored from now on is not deleted.
    values = {
        item.key: item
        async for page in storage.pages(values_of(thread), with_data=False)
        for item in page
    }
    for place in await _namespaces(storage, thread):
        async for page in storage.pages(place):
            for item in page:
                if "/" not in item.key:
                    record = decoded(storage.serde, item.data)
                    for digest in chain.from_iterable(record["values"].values()):
                        values.pop(digest.hex(), None)
    unused = list(values.values())
    for first in range(0, len(unused), AT_ONCE):
        await _delete(storage, unused[first : first + AT_ONCE])


async def _delete(storage: Storage, items: Iterable[MemoryItem]) -> None:
    """Delete items in one step."""
    await storage.items.apply(DeleteItem(item.namespace, item.key) for item in items)


async def _namespaces(storage: Storage, thread: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = await storage.items.list_namespaces(
        (*THREADS, thread, "checkpoints")
    )
    return found


async def copy_thread(storage: Storage, source: object, target: object) -> None:
    """Copy all items of a thread; the values first, which the checkpoints refer to.

    The checkpoints are read before the values: so those that a run stores meanwhile are not copied
    without theirs.
    """
    origin, copy = (*THREADS, text_id(source)), (*THREADS, text_id(target))

    async def put(page: Sequence[MemoryItem]) -> None:
        places = ((item, (*copy, *item.namespace[3:])) for item in page)
        await storage.items.apply(
            PutItem(item.model_copy(update={"namespace": place})) for item, place in places
        )

    checkpoints = [page async for page in storage.pages((*origin, "checkpoints"))]
    async for page in storage.pages((*origin, "values")):
        await put(page)
    for page in checkpoints:
        await put(page)
