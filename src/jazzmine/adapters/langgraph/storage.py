"""Reading, listing and storing checkpoints with their values and pending writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, get_checkpoint_metadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from jazzmine.adapters._recorder import remember
from jazzmine.adapters.langgraph.checkpoints import (
    THREADS,
    Entry,
    KnownCheckpoint,
    Reference,
    add_value,
    checkpoint_key,
    checkpoints_of,
    decoded,
    digests,
    encoded,
    is_inline,
    key_after,
    key_before,
    values_of,
    writes_in,
    writes_item,
)
from jazzmine.adapters.langgraph.configs import config_of, place_of, text_id, user_of
from jazzmine.errors import ConflictError
from jazzmine.records.items import MemoryItem, PutItem

__all__ = ["AT_ONCE", "Storage"]

#: How many items are read, or changed in one transaction.
AT_ONCE = 200

# How many checkpoints are read at once, and how many are known.
_PAGE, _KNOWN = 20, 1_000


@dataclass(frozen=True)
class Storage:
    """The checkpoints of all threads.

    Attributes:
        items: a long-term memory with the async API.
        serde: LangGraph's serializer.
        known: what the values of checkpoints that were stored or read last are in, by thread,
            namespace and id.
    """

    items: Any
    serde: SerializerProtocol
    known: dict[tuple[str, str, str], KnownCheckpoint]

    async def pages(
        self,
        prefix: tuple[str, ...],
        *,
        after: MemoryItem | None = None,
        size: int = AT_ONCE,
        **options: Any,
    ) -> AsyncIterator[list[MemoryItem]]:
        """Yield the items below a namespace, as `list_items` does, of which the first are few."""
        while page := await self.items.list_items(prefix, limit=size, after=after, **options):
            yield page
            if len(page) < size:
                return
            after, size = page[-1], AT_ONCE

    async def entries(
        self,
        place: tuple[str, ...],
        *,
        first: str | None = None,
        before: str | None = None,
        count: int = 1,
    ) -> list[Entry]:
        """Return checkpoints of a namespace, the latest first, with their pending writes."""
        key = key_before(first) if first else key_after(before) if before else None
        after = MemoryItem(namespace=place, key=key, value={}) if key else None
        found: list[Entry] = []
        # Most checkpoints have few pending writes.
        async for page in self.pages(place, after=after, size=min(AT_ONCE, 1 + 2 * count)):
            for item in page:
                if "/" not in item.key:
                    if len(found) == count:
                        return found
                    found.append(Entry(item))
                elif found and item.key.startswith(found[-1].item.key):
                    found[-1].writes.append(item)
        return found

    async def entries_at(self, place: tuple[str, ...], key: str) -> list[Entry]:
        """Return the checkpoint of a namespace and a key with its pending writes, or none."""
        found = await self.entries(place, first=key)
        return [entry for entry in found if entry.item.key == key]

    async def get(self, config: Any) -> CheckpointTuple | None:
        """Return the checkpoint of a config, or the latest one, or None."""
        thread, namespace, checkpoint_id = place_of(config)
        place = checkpoints_of(thread, namespace)
        key = checkpoint_key(checkpoint_id) if checkpoint_id else None
        while found := await (self.entries_at(place, key) if key else self.entries(place)):
            for read in await self._tuples(found, user_of(config)):
                return read
        return None

    async def listed(
        self, config: Any, filter: Mapping[str, Any] | None, before: Any, limit: int | None
    ) -> AsyncIterator[list[CheckpointTuple]]:
        """Yield the checkpoints of a thread, or of all threads, the latest first, in pages."""
        last = before["configurable"].get("checkpoint_id") if before else None
        left = limit
        if left == 0:
            return
        async for entries in self._listed(
            config, checkpoint_key(last) if last else None, None if filter else limit
        ):
            if filter:
                entries = [entry for entry in entries if self._matches(entry, filter)]
            page = await self._tuples(entries[:left], user_of(config))
            if page:
                yield page
            left = None if left is None else left - len(page)
            if left == 0:
                return

    async def _listed(
        self, config: Any, before: str | None, limit: int | None
    ) -> AsyncIterator[list[Entry]]:
        """Yield checkpoints, the latest first; the limit says how many are enough."""
        settings = config["configurable"] if config else {}
        thread = text_id(settings["thread_id"]) if config else None
        namespace: str | None = settings.get("checkpoint_ns")
        wanted = settings.get("checkpoint_id")
        key = checkpoint_key(wanted) if wanted else None
        count = _PAGE if limit is None else min(_PAGE, limit)
        if thread is not None and namespace is not None:
            place = checkpoints_of(thread, namespace)
            if key is not None:
                yield await self.entries_at(place, key)
                return
            while entries := await self.entries(place, before=before, count=count):
                yield entries
                before = entries[-1].item.key
            return
        # If all are asked for, those that were stored last are the latest.
        is_any = not (thread or before or key)
        prefix = (*THREADS, thread, "checkpoints") if thread else THREADS
        places = [
            place
            for place in await self._places(prefix, limit if is_any else None)
            if key in (None, place[1]) and (before is None or place[1] > before)
        ]
        for first in range(0, len(places), count):
            some = places[first : first + count]
            yield [entry for place in some for entry in await self.entries_at(*place)]

    async def _places(
        self, prefix: tuple[str, ...], count: int | None
    ) -> list[tuple[tuple[str, ...], str]]:
        """Return the namespaces and the keys of checkpoints, the latest first.

        Args:
            prefix: the first parts of their namespaces.
            count: how many of those that were stored last; None is all.
        """
        order = "key" if count is None else "updated"
        found: list[tuple[tuple[str, ...], str]] = []
        async for page in self.pages(prefix, order=order, with_data=False):
            found += [
                (item.namespace, item.key)
                for item in page
                if item.namespace[3] == "checkpoints" and "/" not in item.key
            ]
            if count is not None and len(found) >= count:
                break
        return sorted(found[:count], key=lambda place: place[1])

    def _matches(self, entry: Entry, filter: Mapping[str, Any]) -> bool:
        metadata = decoded(self.serde, entry.item.data)["metadata"]
        return all(metadata.get(key) == value for key, value in filter.items())

    async def delta_history(self, config: Any, channels: Sequence[str]) -> Mapping[str, Any]:
        """Return what was written to channels before a checkpoint, and the values before that."""
        thread, namespace, checkpoint_id = place_of(config)
        key = checkpoint_key(checkpoint_id) if checkpoint_id else None
        ancestors = self._line(checkpoints_of(thread, namespace), key)
        await anext(ancestors, None)  # the checkpoint itself
        history: dict[str, Any] = {channel: {"writes": []} for channel in channels}
        seeds: dict[str, Entry] = {}
        while len(seeds) < len(history) and (entry := await anext(ancestors, None)):
            record = decoded(self.serde, entry.item.data)
            for write in reversed(self._pending(entry)):
                if write[1] in history and write[1] not in seeds:
                    history[write[1]]["writes"].insert(0, write)
            for channel in history:
                if channel in record["values"] or channel in record["inline"]:
                    seeds.setdefault(channel, entry)
        for channel, entry in seeds.items():
            for read in await self._tuples([entry]):
                if channel in read.checkpoint["channel_values"]:
                    history[channel]["seed"] = read.checkpoint["channel_values"][channel]
        return history

    async def _line(self, place: tuple[str, ...], key: str | None) -> AsyncIterator[Entry]:
        """Yield a checkpoint of a namespace, or the latest one, and its ancestors."""
        found: dict[str, Entry] = {}
        count = 2
        while True:
            if key not in found:
                # Ancestors mostly follow: ids grow.
                read = await self.entries(place, first=key, count=count)
                found = {entry.item.key: entry for entry in read}
                key, count = key or next(iter(found), None), 50
            if key not in found:
                return
            yield found[key]
            parent = decoded(self.serde, found[key].item.data)["parent"]
            if parent is None:
                return
            key = checkpoint_key(parent)

    def _pending(self, entry: Entry) -> list[tuple[str, str, Any]]:
        """Return the task, the channel and the value of each write after a checkpoint."""
        writes = [
            (item.value["path"], item.value["task"], index, channel, value)
            for item in entry.writes
            for index, (channel, value) in writes_in(self.serde, item).items()
        ]
        writes.sort(key=lambda write: write[:3])
        return [(task, channel, value) for _, task, _, channel, value in writes]

    async def _tuples(
        self, entries: Sequence[Entry], user_id: str | None = None
    ) -> list[CheckpointTuple]:
        """Return the checkpoints of some entries, with their values.

        Those are left out that were deleted with their values since the entries were read.
        """
        records = [decoded(self.serde, entry.item.data) for entry in entries]
        wanted = {
            (values_of(entry.item.namespace[2]), digest.hex())
            for entry, record in zip(entries, records, strict=True)
            for digest in digests(record["values"].values())
        }
        items = await self.items.get_many(wanted) if wanted else []
        values = {(item.namespace[2], item.key): item.data or b"" for item in items if item}
        if len(values) < len(wanted):
            places = [(entry.item.namespace, entry.item.key) for entry in entries]
            left = await self.items.get_many(places)
        else:
            left = list(entries)
        return [
            self._tuple(entry, record, values, user_id or entry.item.user_id)
            for entry, record, stored in zip(entries, records, left, strict=True)
            if stored is not None
        ]

    def _tuple(
        self,
        entry: Entry,
        record: Any,
        values: Mapping[tuple[str, str], bytes],
        user_id: str | None,
    ) -> CheckpointTuple:
        thread, namespace = entry.item.namespace[2], entry.item.namespace[4][1:]
        checkpoint = record["checkpoint"]
        channels = dict(record["inline"])
        known: dict[str, tuple[Any, Reference]] = {}
        for channel, reference in record["values"].items():
            parts = [reference] if isinstance(reference, bytes) else reference
            data = [values.get((thread, digest.hex())) for digest in parts]
            # What was erased or deleted since is not there any more.
            if None not in data:
                read = [decoded(self.serde, part) for part in data]
                is_one = isinstance(reference, bytes)
                channels[channel] = read[0] if is_one else list(chain.from_iterable(read))
                known[channel] = (checkpoint["channel_versions"].get(channel), reference)
        remember(self.known, (thread, namespace, checkpoint["id"]), known, _KNOWN)
        parent = record["parent"]
        return CheckpointTuple(
            config=config_of(thread, namespace, checkpoint["id"], user_id),
            checkpoint={**checkpoint, "channel_values": channels},  # type: ignore[typeddict-item]
            metadata=record["metadata"],
            parent_config=config_of(thread, namespace, parent, user_id) if parent else None,
            pending_writes=self._pending(entry),
        )

    async def put(
        self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any, *, refuse_stale: bool
    ) -> Mapping[str, Reference]:
        """Store a checkpoint after that of a config, with those of its values that are new.

        Returns:
            What refers to the values of the channels that have items of their own.

        Raises:
            ConflictError: the parent is not the newest checkpoint any more.
        """
        thread, namespace, parent = place_of(config)
        user_id = user_of(config)
        kept = dict(checkpoint)
        channels: Mapping[str, Any] = kept.pop("channel_values")
        versions = kept["channel_versions"]
        known = self.known.get((thread, namespace, parent or ""), {})
        inline: dict[str, Any] = {}
        values: dict[str, Reference] = {}
        new: dict[bytes, bytes] = {}
        for channel, value in channels.items():
            version, reference = known.get(channel, (None, None))
            if is_inline(value):
                inline[channel] = value
            elif reference and channel not in new_versions and version == versions.get(channel):
                values[channel] = reference
            else:
                values[channel] = add_value(self.serde, value, new)
        described: dict[str, Any] = {**get_checkpoint_metadata(config, metadata)}
        record = {
            "checkpoint": kept,
            "parent": parent,
            "inline": inline,
            "values": values,
            "metadata": described,
        }
        item = MemoryItem(
            namespace=checkpoints_of(thread, namespace),
            key=checkpoint_key(kept["id"]),
            # What is searched for; the rest is in the record.
            value={"run_id": str(described["run_id"])} if "run_id" in described else {},
            data=encoded(self.serde, record),
            user_id=user_id,
        )
        place = values_of(thread)
        stored = digests(reference for _, reference in known.values())
        added = [
            MemoryItem(namespace=place, key=digest.hex(), value={}, data=data, user_id=user_id)
            for digest, data in new.items()
            if digest not in stored
        ]
        changes = [*map(PutItem, added), PutItem(item)]
        if refuse_stale:
            await self._apply_to_newest(item, parent, kept["id"], changes)
        else:
            await self.items.apply(changes)
        own = {name: (versions.get(name), reference) for name, reference in values.items()}
        remember(self.known, (thread, namespace, kept["id"]), own, _KNOWN)
        return values

    async def _apply_to_newest(
        self, item: MemoryItem, parent: str | None, child: str, changes: list[PutItem]
    ) -> None:
        """Store a checkpoint with a mark that its parent has a child, if no other has put one."""
        # It is read and deleted as a task's writes are, and has none.
        mark = MemoryItem(
            namespace=item.namespace,
            key=f"{checkpoint_key(parent or '')}/child",
            value={"task": "", "path": "", "writes": [], "child": child},
            user_id=item.user_id,
        )
        revision: int | None = None
        while True:
            try:
                await self.items.apply([*changes, PutItem(mark, revision)])
                return
            except ConflictError as error:
                stored = await self.items.get(mark.namespace, mark.key)
                other = child if stored is None else stored.value["child"]
                # It is this one if the call is repeated; another one may have been deleted.
                if other != child and await self.items.get(item.namespace, checkpoint_key(other)):
                    raise ConflictError(
                        f"another run has stored a checkpoint after {parent!r} meanwhile: run it"
                        " again"
                    ) from error
                revision = stored and stored.revision

    async def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task: tuple[str, str]
    ) -> None:
        """Store what a task has written after a checkpoint; what it wrote before stays."""
        thread, namespace, checkpoint_id = place_of(config)
        place = (self.serde, checkpoints_of(thread, namespace), checkpoint_id or "", task)
        user_id = user_of(config)
        regular: dict[int, tuple[str, Any]] = {}
        changes: dict[str, PutItem] = {}
        for position, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, position)
            if index >= 0:
                regular[index] = (channel, value)
            else:
                write = {index: (channel, value)}
                special = writes_item(*place, write, name=str(index), user_id=user_id)
                changes[special.key] = PutItem(special)
        revision = None
        while True:
            if regular:
                item = writes_item(*place, regular, user_id=user_id)
                changes[item.key] = PutItem(item, revision)
            try:
                await self.items.apply(list(changes.values()))
                return
            except ConflictError:
                # The task has written before: what it wrote then stays.
                stored = await self.items.get(item.namespace, item.key)
                revision = stored and stored.revision
                if stored is not None:
                    regular = {**regular, **writes_in(self.serde, stored)}
