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
    encoded,
    is_inline,
    key_after,
    key_before,
    values_of,
    writes_in,
)
from jazzmine.adapters.langgraph.configs import config_of, place_of, text_id, user_of
from jazzmine.errors import ConflictError
from jazzmine.records.items import MemoryItem, PutItem

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
        known: the versions of channels of checkpoints that were stored or read last, and what
            refers to their values, by thread, namespace and id.
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
        self, place: tuple[str, ...], *, after: str | None = None, count: int = 1
    ) -> list[Entry]:
        """Return checkpoints of a namespace, the latest first, with their pending writes."""
        last = MemoryItem(namespace=place, key=after, value={}) if after else None
        found: list[Entry] = []
        # Most checkpoints have few pending writes.
        async for page in self.pages(place, after=last, size=min(AT_ONCE, 1 + 2 * count)):
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
        found = await self.entries(place, after=key_before(key))
        return [entry for entry in found if entry.item.key == key]

    async def get(self, config: Any) -> CheckpointTuple | None:
        """Return the checkpoint of a config, or the latest one, or None."""
        thread, namespace, _ = place_of(config)
        place, key = checkpoints_of(thread, namespace), _key_of(config["configurable"])
        while found := await (self.entries_at(place, key) if key else self.entries(place)):
            for read in await self._tuples(found, user_of(config)):
                return read
        return None

    async def listed(
        self, config: Any, filter: Mapping[str, Any] | None, before: Any, limit: int | None
    ) -> AsyncIterator[list[CheckpointTuple]]:
        """Yield the checkpoints of a thread, or of all threads, the latest first, in pages."""
        left = limit
        listed = self._listed(config, before, _PAGE if limit is None or filter else limit)
        while left != 0 and (entries := await anext(listed, None)) is not None:
            if filter:
                entries = [entry for entry in entries if self._matches(entry, filter)]
            page = await self._tuples(entries[:left], user_of(config))
            if page:
                yield page
            left = None if left is None else left - len(page)

    async def _listed(self, config: Any, before: Any, count: int) -> AsyncIterator[list[Entry]]:
        """Yield checkpoints, the latest first, so many at once."""
        settings = config["configurable"] if config else {}
        thread = text_id(settings.get("thread_id")) if config else None
        namespace: str | None = settings.get("checkpoint_ns")
        key = _key_of(settings)
        last = _key_of(before["configurable"]) if before else None
        count = min(count, _PAGE)
        if thread is not None and namespace is not None and key is None:
            place = checkpoints_of(thread, namespace)
            after = key_after(last) if last else None
            while entries := await self.entries(place, after=after, count=count):
                yield entries
                after = key_after(entries[-1].item.key)
            return
        prefix: tuple[str, ...] = THREADS
        if thread is not None:
            prefix = (*THREADS, thread, "checkpoints")
            prefix = prefix if namespace is None else checkpoints_of(thread, namespace)
        places = [
            (item.key, item.namespace)
            async for page in self.pages(prefix, with_data=False)
            for item in page
            if item.namespace[3] == "checkpoints"
            and "/" not in item.key
            and key in (None, item.key)
            and (last is None or item.key > last)
        ]
        places.sort()
        for first in range(0, len(places), count):
            some = places[first : first + count]
            yield [entry for at, place in some for entry in await self.entries_at(place, at)]

    def _matches(self, entry: Entry, filter: Mapping[str, Any]) -> bool:
        metadata = decoded(self.serde, entry.item.data)["metadata"]
        return all(metadata.get(key) == value for key, value in filter.items())

    async def delta_history(self, config: Any, channels: Sequence[str]) -> Mapping[str, Any]:
        """Return what was written to channels before a checkpoint, and the values before that."""
        thread, namespace, _ = place_of(config)
        ancestors = self.line(checkpoints_of(thread, namespace), _key_of(config["configurable"]))
        await anext(ancestors, None)  # the checkpoint itself
        history: dict[str, Any] = {channel: {"writes": []} for channel in channels}
        left = set(channels)
        while left and (ancestor := await anext(ancestors, None)):
            entry, record = ancestor
            for write in reversed(self._pending(entry)):
                if write[1] in left:
                    history[write[1]]["writes"].insert(0, write)
            seeds = left & (record["values"].keys() | record["inline"].keys())
            for read in await self._tuples([entry]) if seeds else ():
                values = read.checkpoint["channel_values"]
                for channel in seeds & values.keys():
                    history[channel]["seed"] = values[channel]
            left -= seeds
        return history

    async def written(self, config: Any, channel: str) -> list[Any]:
        """Return all parts of the lists written to a delta channel before a checkpoint."""
        history = (await self.delta_history(config, [channel]))[channel]
        seed = history.get("seed")
        values = [getattr(seed, "value", seed) or [], *(value for *_, value in history["writes"])]
        parts = (part for value in values for part in (value if type(value) is list else [value]))
        return [part for part in parts if getattr(part, "type", None) != "remove"]

    async def line(
        self, place: tuple[str, ...], key: str | None
    ) -> AsyncIterator[tuple[Entry, Any]]:
        """Yield a checkpoint of a namespace, or the latest one, and its ancestors, decoded."""
        found: dict[str, Entry] = {}
        while True:
            if key not in found:
                # Ancestors mostly follow: ids grow.
                after = key_before(key) if key else None
                read = await self.entries(place, after=after, count=_PAGE)
                found = {entry.item.key: entry for entry in read}
                key = key or next(iter(found), None)
            if key not in found:
                return
            record = decoded(self.serde, found[key].item.data)
            yield found[key], record
            if record["parent"] is None:
                return
            key = checkpoint_key(record["parent"])

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
            for digest in chain.from_iterable(record["values"].values())
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
        known: dict[str, Reference] = {}
        for channel, reference in record["values"].items():
            data = [values.get((thread, digest.hex())) for digest in reference]
            # What was erased or deleted since is not there any more.
            if None not in data:
                read = [decoded(self.serde, part) for part in data]
                channels[channel] = read[0] if len(read) == 1 else list(chain.from_iterable(read))
                known[channel] = reference
        self._remember(thread, namespace, checkpoint, known)
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
        old_versions, known = self.known.get((thread, namespace, parent or ""), ({}, {}))
        inline: dict[str, Any] = {}
        values: dict[str, Reference] = {}
        new: dict[bytes, bytes] = {}
        for channel, value in channels.items():
            is_old = old_versions.get(channel) == versions.get(channel)
            if is_inline(value):
                inline[channel] = value
            elif channel in known and channel not in new_versions and is_old:
                values[channel] = known[channel]
            else:
                values[channel] = add_value(self.serde, value, new)
        described: Mapping[str, Any] = get_checkpoint_metadata(config, metadata)
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
        stored = set(chain.from_iterable(known.values()))
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
        self._remember(thread, namespace, kept, values)
        return values

    def _remember(
        self, thread: str, namespace: str, checkpoint: Any, values: Mapping[str, Reference]
    ) -> None:
        known = (checkpoint["channel_versions"], values)
        remember(self.known, (thread, namespace, checkpoint["id"]), known, _KNOWN)

    async def _apply_to_newest(
        self, item: MemoryItem, parent: str | None, child: str, changes: list[PutItem]
    ) -> None:
        """Store a checkpoint with a mark that its parent has a child, if no other has put one."""
        if parent is not None and child < parent:
            # Runs go on from the checkpoint whose id is the last one: none would see this one.
            raise ConflictError(
                f"the clock of this machine is behind that of the one which has stored {parent!r}:"
                " run it again"
            )
        # It is read and deleted as a task's writes are, and has none.
        mark = MemoryItem(
            namespace=item.namespace,
            key=f"{checkpoint_key(parent or '')}/child",
            value={"task": "", "path": "", "child": child},
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
        task_id, path = task

        def item_of(name: str, some: Mapping[int, tuple[str, Any]]) -> MemoryItem:
            return MemoryItem(
                namespace=checkpoints_of(thread, namespace),
                key=f"{checkpoint_key(checkpoint_id or '')}/{task_id}/{name}",
                value={"task": task_id, "path": path},
                data=encoded(self.serde, [(index, *write) for index, write in some.items()]),
                user_id=user_of(config),
            )

        regular: dict[int, tuple[str, Any]] = {}
        changes: dict[str, PutItem] = {}
        for position, write in enumerate(writes):
            index = WRITES_IDX_MAP.get(write[0], position)
            if index >= 0:
                regular[index] = write
            else:
                changes[str(index)] = PutItem(item_of(str(index), {index: write}))
        revision = None
        while True:
            if regular:
                item = item_of("", regular)
                changes[""] = PutItem(item, revision)
            try:
                await self.items.apply(list(changes.values()))
                return
            except ConflictError:
                # The task has written before: what it wrote then stays.
                stored = await self.items.get(item.namespace, item.key)
                revision = stored and stored.revision
                if stored is not None:
                    regular |= writes_in(self.serde, stored)


def _key_of(settings: Mapping[str, Any]) -> str | None:
    """Return the key of the checkpoint that a config names, or None."""
    checkpoint_id = settings.get("checkpoint_id")
    return checkpoint_key(checkpoint_id) if checkpoint_id else None
