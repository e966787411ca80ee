"""Deleting checkpoints, pending writes and values."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from jazzmine.adapters.langgraph.checkpoints import (
    THREADS,
    Storage,
    checkpoint_key,
    decoded,
    digests,
    values_of,
)
from jazzmine.adapters.langgraph.threads import AT_ONCE, entries_at, namespaces_in, pages
from jazzmine.errors import ConflictError
from jazzmine.records.items import DeleteItem, MemoryItem

__all__ = ["Pruner"]


class Pruner(Storage):
    """Deletes checkpoints with what no other one needs."""

    async def delete_thread(self, thread: str) -> None:
        """Delete all items of a thread; the checkpoints first, which refer to the values."""
        self.forget()
        for part in ("checkpoints", "values"):
            async for page in pages(self.items, (*THREADS, thread, part), with_data=False):
                await self._delete(page)

    async def delete_runs(self, run_ids: Iterable[str]) -> None:
        """Delete the checkpoints of runs."""
        threads = set()
        for run_id in run_ids:
            # No index has the runs: this reads the metadata of all threads, once.
            async for page in pages(self.items, THREADS, with_data=False, where={"run_id": run_id}):
                for item in page:
                    threads.add(item.namespace[2])
                    for entry in await entries_at(self.items, item.namespace, item.key):
                        await self._delete([entry.item, *entry.writes])
        for thread in sorted(threads):
            await self._delete_unused_values(thread)

    async def keep_latest(self, thread: str) -> None:
        """Delete all but the latest checkpoint of each namespace, and what it needs.

        It needs the checkpoints from which it takes the values of delta channels.
        """
        for place in await namespaces_in(self.items, thread):
            await self._keep_latest(place)
        await self._delete_unused_values(thread)

    async def _keep_latest(self, place: tuple[str, ...]) -> None:
        # Later checkpoints are listed before earlier ones, so each before its parent.
        kept: str | None = None
        wanted: set[str] | None = None
        current, is_kept = "", True
        async for page in pages(self.items, place, with_data=False):
            unused = []
            for item in page:
                if "/" not in item.key:
                    is_kept = not current or item.key == kept
                    current = item.key
                    if is_kept:
                        kept, wanted = await self._needed(item, wanted)
                # A task may write before its checkpoint is stored.
                if not is_kept and item.key.startswith(current):
                    unused.append(item)
            await self._delete(unused)

    async def _needed(
        self, item: MemoryItem, wanted: set[str] | None
    ) -> tuple[str | None, set[str] | None]:
        """Return the key of the parent, if it is needed, and the channels for which it is."""
        stored = await self.items.get(item.namespace, item.key)
        if stored is None:
            return None, wanted
        record = decoded(self.serde, stored.data)
        if wanted is None:
            # The channels whose values are made of what was written before.
            wanted = set(record["metadata"].get("counters_since_delta_snapshot") or {})
        wanted = wanted - record["values"].keys() - record["inline"].keys()
        parent = record["parent"]
        return checkpoint_key(parent) if wanted and parent else None, wanted

    async def _delete_unused_values(self, thread: str) -> None:
        """Delete the values of a thread that none of its checkpoints refers to."""
        self.forget()
        # Read before the checkpoints: what is stored from now on is not deleted.
        values: dict[str, int] = {}
        async for page in pages(self.items, values_of(thread), with_data=False):
            values.update((item.key, item.revision) for item in page)
        for place in await namespaces_in(self.items, thread):
            async for page in pages(self.items, place):
                for item in page:
                    if "/" not in item.key:
                        record = decoded(self.serde, item.data)
                        for digest in digests(record["values"].values()):
                            values.pop(digest.hex(), None)
        unused = iter([DeleteItem(values_of(thread), key, values[key]) for key in values])
        while some := list(islice(unused, AT_ONCE)):
            try:
                await self.items.apply(some)
            except ConflictError:
                for deletion in some:
                    with suppress(ConflictError):  # stored again for another checkpoint
                        await self.items.apply([deletion])

    async def _delete(self, items: Iterable[MemoryItem]) -> None:
        """Delete items in one step."""
        await self.items.apply(DeleteItem(item.namespace, item.key) for item in items)
