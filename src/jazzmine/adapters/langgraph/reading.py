"""Reading checkpoints with their values and pending writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple

from jazzmine.adapters.langgraph.checkpoints import (
    THREADS,
    Entry,
    Storage,
    checkpoint_key,
    checkpoints_of,
    decoded,
    digests,
    values_of,
    writes_in,
)
from jazzmine.adapters.langgraph.configs import config_of, place_of, text_id, user_of
from jazzmine.adapters.langgraph.threads import Place, entries_at, entries_in, places_in
from jazzmine.records.items import MemoryItem

__all__ = ["Listing", "Reader"]

_PAGE = 20


class Reader(Storage):
    """Reads checkpoints."""

    async def get(self, config: Any) -> CheckpointTuple | None:
        """Return the checkpoint of a config, or the latest one, or None."""
        thread, namespace, checkpoint_id = place_of(config)
        place = checkpoints_of(thread, namespace)
        key = checkpoint_key(checkpoint_id) if checkpoint_id else None
        while True:
            found = await (
                entries_at(self.items, place, key)
                if key
                else entries_in(self.items, place, count=1)
            )
            if not found:
                return None
            for read in await self.tuples(found, user_of(config)):
                return read

    async def tuples(
        self, entries: Sequence[Entry], user_id: str | None = None
    ) -> list[CheckpointTuple]:
        """Return the checkpoints of some entries, with their values.

        Those are left out that were deleted with their values since the entries were read.
        """
        records = [decoded(self.serde, entry.item.data) for entry in entries]
        wanted: dict[str, set[bytes]] = {}
        for entry, record in zip(entries, records, strict=True):
            thread = entry.item.namespace[2]
            wanted.setdefault(thread, set()).update(digests(record["values"].values()))
        values = {thread: await self._values(thread, wanted[thread]) for thread in wanted}
        stored: Sequence[Any] = entries
        if any(len(values[thread]) < len(wanted[thread]) for thread in wanted):
            stored = await self.items.get_many(
                (entry.item.namespace, entry.item.key) for entry in entries
            )
        return [
            self._tuple(
                entry, record, values[entry.item.namespace[2]], user_id or entry.item.user_id
            )
            for entry, record, item in zip(entries, records, stored, strict=True)
            if item is not None
        ]

    def metadata(self, item: MemoryItem) -> dict[str, Any]:
        """Return the metadata of a checkpoint's item."""
        return {**item.value, **decoded(self.serde, item.data)["metadata"]}

    def pending(self, entry: Entry) -> list[tuple[str, str, Any]]:
        """Return the task, the channel and the value of each write after a checkpoint."""
        writes = [
            (item.value["path"], item.value["task"], index, channel, value)
            for item in entry.writes
            for index, (channel, value) in writes_in(self.serde, item).items()
        ]
        writes.sort(key=lambda write: write[:3])
        return [(task, channel, value) for _, task, _, channel, value in writes]

    async def delta_history(self, config: Any, channels: Sequence[str]) -> Mapping[str, Any]:
        """Return what was written to channels before a checkpoint, and the values before that."""
        if not channels:
            return {}
        thread, namespace, checkpoint_id = place_of(config)
        place = checkpoints_of(thread, namespace)
        entries: dict[str, Entry] = {}

        async def entry_of(wanted: str | None) -> Entry | None:
            key = checkpoint_key(wanted) if wanted else None
            if key not in entries:
                # Ancestors mostly follow: ids grow.
                found = await entries_in(self.items, place, first=key, count=50 if entries else 2)
                entries.update((entry.item.key, entry) for entry in found)
                key = key or (found[0].item.key if found else None)
            return entries.get(key or "")

        written: dict[str, Any] = {channel: [] for channel in channels}
        seeds: dict[str, Entry] = {}
        target = await entry_of(checkpoint_id)
        while target is not None and len(seeds) < len(written):
            parent = decoded(self.serde, target.item.data)["parent"]
            target = await entry_of(parent) if parent else None
            if target is None:
                break
            record = decoded(self.serde, target.item.data)
            for write in reversed(self.pending(target)):
                if write[1] in written and write[1] not in seeds:
                    written[write[1]].append(write)
            for channel in written:
                if channel in record["values"] or channel in record["inline"]:
                    seeds.setdefault(channel, target)
        ancestors = {entry.item.key: entry for entry in seeds.values()}
        values = {
            checkpoint_key(found.checkpoint["id"]): found.checkpoint["channel_values"]
            for found in await self.tuples([*ancestors.values()])
        }
        history: dict[str, Any] = {}
        for channel in channels:
            history[channel] = {"writes": written[channel][::-1]}
            if channel in seeds and channel in values.get(seeds[channel].item.key, {}):
                history[channel]["seed"] = values[seeds[channel].item.key][channel]
        return history

    async def _values(self, thread: str, wanted: set[bytes]) -> dict[bytes, bytes]:
        """Return the bytes of those values of a thread that are stored."""
        known = {digest: self.values.get((thread, digest)) for digest in wanted}
        values = {digest: data for digest, data in known.items() if data is not None}
        missing = sorted(wanted - values.keys())
        if missing:
            place = values_of(thread)
            items = await self.items.get_many((place, digest.hex()) for digest in missing)
            read = {
                digest: item.data or b""
                for digest, item in zip(missing, items, strict=True)
                if item is not None
            }
            self.add_values(thread, read)
            values.update(read)
        return values

    def _tuple(
        self, entry: Entry, record: Any, values: Mapping[bytes, bytes], user_id: str | None
    ) -> CheckpointTuple:
        thread, namespace = entry.item.namespace[2], entry.item.namespace[4][1:]
        checkpoint = record["checkpoint"]

        def value_at(digest: bytes) -> Any:
            return decoded(self.serde, values[digest])

        channels = dict(record["inline"])
        for channel, reference in record["values"].items():
            parts = [reference] if isinstance(reference, bytes) else reference
            # What was erased or deleted since is not there any more.
            if all(digest in values for digest in parts):
                channels[channel] = (
                    value_at(reference)
                    if isinstance(reference, bytes)
                    else [element for digest in reference for element in value_at(digest)]
                )
        known = {
            name: (checkpoint["channel_versions"].get(name), reference)
            for name, reference in record["values"].items()
            if name in channels
        }
        self.add_checkpoint((thread, namespace, checkpoint["id"]), known)
        parent = record["parent"]
        return CheckpointTuple(
            config=config_of(thread, namespace, checkpoint["id"], user_id),
            checkpoint={**checkpoint, "channel_values": channels},  # type: ignore[typeddict-item]
            metadata={**entry.item.value, **record["metadata"]},  # type: ignore[typeddict-item]
            parent_config=config_of(thread, namespace, parent, user_id) if parent else None,
            pending_writes=self.pending(entry),
        )


class Listing:
    """The checkpoints of a thread, or of all threads, the latest first, a page at a time."""

    def __init__(
        self,
        reader: Reader,
        config: Any,
        filter: Mapping[str, Any] | None,
        before: Any,
        limit: int | None,
    ) -> None:
        settings = config["configurable"] if config else {}
        self._reader, self._user_id = reader, user_of(config)
        self._thread = text_id(settings["thread_id"]) if config else None
        self._namespace: str | None = settings.get("checkpoint_ns")
        wanted = settings.get("checkpoint_id")
        last = before["configurable"].get("checkpoint_id") if before else None
        self._wanted = checkpoint_key(wanted) if wanted else None
        self._before = checkpoint_key(last) if last else None
        self._filter, self._left = filter or {}, limit
        self._places: list[Place] | None = None
        self._is_read = False

    async def page(self) -> list[CheckpointTuple]:
        """Return the next ones; [] after the last one."""
        found: list[CheckpointTuple] = []
        while not found and self._left != 0 and (entries := await self._entries()):
            matching = [entry for entry in entries if self._matches(entry)][: self._left]
            found = await self._reader.tuples(matching, self._user_id)
            if self._left is not None:
                self._left -= len(found)
        return found

    async def _entries(self) -> list[Entry]:
        """Return the next checkpoints, whether or not the filter lets them through."""
        items, count = self._reader.items, _PAGE
        if self._left is not None and not self._filter:
            count = min(count, self._left)
        if self._thread is None or self._namespace is None:
            if self._places is None:
                is_any = not (self._thread or self._filter or self._wanted or self._before)
                prefix = (*THREADS, self._thread, "checkpoints") if self._thread else THREADS
                self._places = [
                    (place, key)
                    for place, key in await places_in(items, prefix, self._left if is_any else None)
                    if self._wanted in (None, key) and (self._before is None or key > self._before)
                ]
            places, self._places = self._places[:count], self._places[count:]
            found = [await entries_at(items, place, key) for place, key in places]
            return [entry for entries in found for entry in entries]
        if self._is_read:
            return []
        place = checkpoints_of(self._thread, self._namespace)
        if self._wanted:
            entries = await entries_at(items, place, self._wanted)
            self._is_read = True
        else:
            entries = await entries_in(items, place, before=self._before, count=count)
            self._is_read = len(entries) < count
            self._before = entries[-1].item.key if entries else None
        return entries

    def _matches(self, entry: Entry) -> bool:
        if not self._filter:
            return True
        metadata = self._reader.metadata(entry.item)
        return all(metadata.get(key) == value for key, value in self._filter.items())
