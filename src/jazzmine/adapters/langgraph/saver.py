"""The checkpoints of LangGraph's graphs in a long-term memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from jazzmine._async.long_term_memory.store import LongTermMemoryStore as AsyncItems
from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import require_session_id
from jazzmine.adapters._steps import Steps
from jazzmine.adapters.langgraph.checkpoints import (
    Entry,
    KnownValues,
    Reference,
    Values,
    checkpoint_key,
    checkpoints_of,
    decoded,
    digests,
    encoded,
    is_inline,
    plain_metadata,
    values_of,
    writes_in,
    writes_item,
)
from jazzmine.adapters.langgraph.conversation import append_new
from jazzmine.adapters.langgraph.recorder import JazzmineRecorder
from jazzmine.adapters.langgraph.threads import (
    copy_items,
    delete,
    delete_run,
    delete_thread,
    delete_unused_values,
    entries_in,
    namespaces_in,
)
from jazzmine.errors import ConfigurationError, ConflictError
from jazzmine.records.items import MemoryItem, PutItem

__all__ = ["JazzmineSaver"]

# Of how many checkpoints, those put or read last, it is known which values they have.
_KNOWN = 256

_PAGE = 20


class _Known(NamedTuple):
    versions: Mapping[str, Any]
    values: Mapping[str, Reference]


class JazzmineSaver(BaseCheckpointSaver[str]):
    """Keeps the checkpoints of graphs, for plain calls and coroutines alike.

    A value of a channel is stored once, whichever checkpoints have it, and of a list that has
    grown only what is new. A checkpoint and its values are stored in one transaction.

    With `configurable["user_id"]` in a graph's config, the checkpoints are that user's:
    `erase_user` deletes them.

    Args:
        items: an open long-term memory. One of the sync API serves coroutines from threads; one of
            the async API serves plain calls that are made in other threads than its event loop's,
            in which the saver is made.
        serde: LangGraph's serializer.
        messages: an open message store of the same API. Where a graph's config has a `user_id`
            and its state `messages`, these are appended to the conversation with the thread's id,
            so that a person can read it.
        agent_id: the agent of these conversations.

    Raises:
        TypeError: an argument is of another type.
        ConfigurationError: messages would be readable that `serde` encrypts.
        RuntimeError: the stores are async, and no event loop runs.
    """

    def __init__(
        self,
        items: AsyncItems | LongTermMemoryStore,
        *,
        serde: Any = None,
        messages: AsyncMessageStore | MessageStore | None = None,
        agent_id: str = "langgraph",
    ) -> None:
        super().__init__(serde=serde)
        self._steps = Steps(items, (AsyncItems, LongTermMemoryStore))
        self._items: Any = self._steps.store
        self._messages: Any = None
        self._recorder: JazzmineRecorder | None = None
        self._agent_id = require_session_id(agent_id, "agent_id")
        if messages is not None:
            if isinstance(self.serde, EncryptedSerializer):
                raise ConfigurationError(
                    "messages would be readable beside checkpoints that serde encrypts: pass one"
                )
            steps = Steps(messages, (AsyncMessageStore, MessageStore))
            if steps.is_async != self._steps.is_async:
                raise TypeError("items and messages must be of the same API, async or sync")
            self._messages = steps.store
            self._recorder = JazzmineRecorder(steps, agent_id)
        self._known: OrderedDict[tuple[str, str, str], _Known] = OrderedDict()
        self._lock = Lock()
        self._known_values = KnownValues()

    def get_next_version(self, current: Any, channel: None) -> str:
        """Return a version later than `current`, which no other branch has."""
        number = int(str(current).split(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{uuid4().hex}"

    def recorder(self) -> JazzmineRecorder:
        """Return a callback handler, which stores the traces of runs beside their messages.

        A trace is stored in one step with messages of its run, and at the end of the run. So it is
        stored where messages are: of graphs whose state has `messages`, for configs with a
        `user_id`. Runs with this recorder may be of any number of threads at once.

        Raises:
            ConfigurationError: the saver has no message store.
        """
        if self._recorder is None:
            raise ConfigurationError("traces are stored beside messages: pass a message store")
        return self._recorder

    # Plain calls

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """Return the checkpoint of a config, or the latest one, or None."""
        return self._steps.plain(self._get(config))

    def list(
        self,
        config: Any,
        *,
        filter: dict[str, Any] | None = None,
        before: Any = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the latest first.

        Args:
            config: the thread, and the namespace and the checkpoint where it names them; None is
                all threads.
            filter: only those whose metadata has these values.
            before: only those before the checkpoint of this config.
            limit: how many at most.
        """
        found = self._steps.plain(self._entries(config, filter, before, limit))
        for first in range(0, len(found), _PAGE):
            yield from self._steps.plain(self._tuples(found[first : first + _PAGE]))

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint after that of the config, and return its own config."""
        return self._steps.plain(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written after a checkpoint; what it wrote before stays."""
        self._steps.plain(self._put_writes(config, writes, (task_id, task_path)))

    def delete_thread(self, thread_id: str) -> None:
        """Delete all checkpoints of a thread, and its conversation."""
        self._steps.plain(self._delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs."""
        self._steps.plain(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread to another one."""
        self._steps.plain(copy_items(self._items, str(source_thread_id), str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete checkpoints of threads.

        Args:
            thread_ids: which threads.
            strategy: "delete" for all checkpoints; "keep_latest" for all but the latest one of each
                namespace, and those from which it takes the values of delta channels.
        """
        self._steps.plain(self._prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: Any, channels: Sequence[str]
    ) -> Mapping[str, Any]:
        """Return what was written to delta channels before a checkpoint, and their last values."""
        return self._steps.plain(self._delta_history(config, channels))

    # Coroutines

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """Do the same as `get_tuple`."""
        return await self._steps.awaited(self._get(config))

    async def alist(
        self,
        config: Any,
        *,
        filter: dict[str, Any] | None = None,
        before: Any = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do the same as `list`."""
        found = await self._steps.awaited(self._entries(config, filter, before, limit))
        for first in range(0, len(found), _PAGE):
            page = await self._steps.awaited(self._tuples(found[first : first + _PAGE]))
            for checkpoint in page:
                yield checkpoint

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Do the same as `put`."""
        return await self._steps.awaited(self._put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do the same as `put_writes`."""
        await self._steps.awaited(self._put_writes(config, writes, (task_id, task_path)))

    async def adelete_thread(self, thread_id: str) -> None:
        """Do the same as `delete_thread`."""
        await self._steps.awaited(self._delete_thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do the same as `delete_for_runs`."""
        await self._steps.awaited(self._delete_for_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do the same as `copy_thread`."""
        await self._steps.awaited(
            copy_items(self._items, str(source_thread_id), str(target_thread_id))
        )

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do the same as `prune`."""
        await self._steps.awaited(self._prune(thread_ids, strategy))

    async def aget_delta_channel_history(
        self, *, config: Any, channels: Sequence[str]
    ) -> Mapping[str, Any]:
        """Do the same as `get_delta_channel_history`."""
        return await self._steps.awaited(self._delta_history(config, channels))

    # The steps

    async def _put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread, namespace, parent = _place(config)
        user_id = _user_id(config)
        kept = dict(checkpoint)
        channels: Mapping[str, Any] = kept.pop("channel_values")
        versions = kept["channel_versions"]
        known = self._known.get((thread, namespace, parent or ""), _Known({}, {}))
        new = Values(self.serde, thread, user_id)
        inline: dict[str, Any] = {}
        values: dict[str, Reference] = {}
        for channel, value in channels.items():
            if is_inline(value):
                inline[channel] = value
            elif (
                channel in known.values
                and channel not in new_versions
                and known.versions.get(channel) == versions.get(channel)
            ):
                values[channel] = known.values[channel]
            else:
                values[channel] = new.add(value)
        described: dict[str, Any] = {**get_checkpoint_metadata(config, metadata)}
        searched = plain_metadata(described)
        record = {
            "checkpoint": kept,
            "parent": parent,
            "inline": inline,
            "values": values,
            "metadata": {key: described[key] for key in described if key not in searched},
        }
        stored = digests(known.values.values())
        item = MemoryItem(
            namespace=checkpoints_of(thread, namespace),
            key=checkpoint_key(kept["id"]),
            value=searched,
            data=encoded(self.serde, record),
            user_id=user_id,
        )
        added = {digest: one for digest, one in new.items.items() if digest not in stored}
        await self._items.apply([*map(PutItem, added.values()), PutItem(item)])
        self._known_values.add(thread, {digest: one.data or b"" for digest, one in added.items()})
        self._remember((thread, namespace, kept["id"]), _Known(versions, values))
        if self._recorder is not None and user_id is not None and not namespace:
            said = channels.get("messages")
            if isinstance(said, list) and "messages" in new_versions:
                run = self._recorder.run_of(thread, user_id)
                await append_new(self._messages, thread, user_id, self._agent_id, said, run)
        return _config(thread, namespace, kept["id"], user_id)

    async def _put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task: tuple[str, str]
    ) -> None:
        thread, namespace, checkpoint_id = _place(config)
        place = (self.serde, checkpoints_of(thread, namespace), checkpoint_id or "", task)
        user_id = _user_id(config)
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
                await self._items.apply(list_of(changes.values()))
                return
            except ConflictError:
                # The task has written before: what it wrote then stays.
                stored = await self._items.get(item.namespace, item.key)
                revision = stored and stored.revision
                if stored is not None:
                    regular = {**regular, **writes_in(self.serde, stored)}

    async def _get(self, config: Any) -> CheckpointTuple | None:
        thread, namespace, checkpoint_id = _place(config)
        place = checkpoints_of(thread, namespace)
        key = checkpoint_key(checkpoint_id) if checkpoint_id else None
        while True:
            found = await entries_in(self._items, place, first=key, count=1)
            if not found or (key and found[0].item.key != key):
                return None
            for read in await self._tuples(found):
                return read

    async def _entries(
        self, config: Any, filter: dict[str, Any] | None, before: Any, limit: int | None
    ) -> Sequence[Entry]:
        settings = config["configurable"] if config else {}
        thread = str(settings["thread_id"]) if config else None
        namespace = settings.get("checkpoint_ns")
        wanted = settings.get("checkpoint_id")
        last = before["configurable"].get("checkpoint_id") if before else None
        key, end = (checkpoint_key(one) if one else None for one in (wanted, last))
        if thread is not None and namespace is not None:
            places = [checkpoints_of(thread, namespace)]
        else:
            places = await namespaces_in(self._items, thread)
        count = None if filter else limit
        found: Any = []
        for place in places:
            if key:
                some = await entries_in(self._items, place, first=key, count=1)
                some = [entry for entry in some if entry.item.key == key]
            else:
                some = await entries_in(self._items, place, before=end, count=count)
            found += [
                entry
                for entry in some
                if not filter or _matches(self._metadata(entry.item), filter)
            ]
        if len(places) > 1:
            found.sort(key=lambda entry: entry.item.key)
        return found if limit is None else found[:limit]

    async def _tuples(self, entries: Sequence[Entry]) -> Any:
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
            stored = await self._items.get_many(
                (entry.item.namespace, entry.item.key) for entry in entries
            )
        return [
            self._tuple(entry, record, values[entry.item.namespace[2]])
            for entry, record, item in zip(entries, records, stored, strict=True)
            if item is not None
        ]

    async def _values(self, thread: str, wanted: set[bytes]) -> dict[bytes, bytes]:
        """Return the bytes of those values of a thread that are stored."""
        values = self._known_values.of(thread, wanted)
        missing = sorted(wanted - values.keys())
        if missing:
            place = values_of(thread)
            items = await self._items.get_many((place, digest.hex()) for digest in missing)
            read = {
                digest: item.data or b""
                for digest, item in zip(missing, items, strict=True)
                if item is not None
            }
            self._known_values.add(thread, read)
            values.update(read)
        return values

    def _tuple(self, entry: Entry, record: Any, values: Mapping[bytes, bytes]) -> CheckpointTuple:
        thread, namespace = entry.item.namespace[2], entry.item.namespace[4][1:]
        checkpoint, user_id = record["checkpoint"], entry.item.user_id

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
        known = _Known(
            checkpoint["channel_versions"],
            {name: found for name, found in record["values"].items() if name in channels},
        )
        self._remember((thread, namespace, checkpoint["id"]), known)
        parent = record["parent"]
        return CheckpointTuple(
            config=_config(thread, namespace, checkpoint["id"], user_id),
            checkpoint={**checkpoint, "channel_values": channels},  # type: ignore[typeddict-item]
            metadata={**entry.item.value, **record["metadata"]},  # type: ignore[typeddict-item]
            parent_config=_config(thread, namespace, parent, user_id) if parent else None,
            pending_writes=self._pending(entry),
        )

    def _pending(self, entry: Entry) -> Any:
        writes = [
            (item.value["path"], item.value["task"], index, channel, value)
            for item in entry.writes
            for index, (channel, value) in writes_in(self.serde, item).items()
        ]
        writes.sort(key=lambda write: write[:3])
        return [(task, channel, value) for _, task, _, channel, value in writes]

    def _metadata(self, item: MemoryItem) -> dict[str, Any]:
        return {**item.value, **decoded(self.serde, item.data)["metadata"]}

    def _remember(self, place: tuple[str, str, str], known: _Known) -> None:
        with self._lock:
            self._known[place] = known
            self._known.move_to_end(place)
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)

    def _forget(self) -> None:
        with self._lock:
            self._known.clear()
        self._known_values.clear()

    async def _delete_thread(self, thread_id: str) -> None:
        thread = str(thread_id)
        self._forget()
        await delete_thread(self._items, thread)
        if self._messages is not None:
            await self._messages.delete_conversation(thread)

    async def _delete_for_runs(self, run_ids: Sequence[str]) -> None:
        threads = set()
        for run_id in run_ids:
            threads |= await delete_run(self._items, str(run_id))
        for thread in sorted(threads):
            await self._delete_unused_values(thread)

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy must be 'keep_latest' or 'delete', not {strategy!r}")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self._forget()
                await delete_thread(self._items, thread)
                continue
            for place in await namespaces_in(self._items, thread):
                await self._keep_latest(place)
            await self._delete_unused_values(thread)

    async def _keep_latest(self, place: tuple[str, ...]) -> None:
        entries = await entries_in(self._items, place)
        records = {entry.item.key: decoded(self.serde, entry.item.data) for entry in entries}
        by_key = {entry.item.key: entry for entry in entries}
        key = entries[0].item.key if entries else None
        kept, wanted = set(), None
        while key in records:
            kept.add(key)
            record = records[key]
            if wanted is None:
                # The channels whose values are made of what was written before.
                counted = record["metadata"].get("counters_since_delta_snapshot") or {}
                wanted = set(counted)
            wanted -= record["values"].keys() | record["inline"].keys()
            if not wanted or not record["parent"]:
                break
            key = checkpoint_key(record["parent"])
        for key, entry in by_key.items():
            if key not in kept:
                await delete(self._items, [entry.item, *entry.writes])

    async def _delete_unused_values(self, thread: str) -> None:
        self._forget()
        await delete_unused_values(
            self._items,
            thread,
            lambda item: digests(decoded(self.serde, item.data)["values"].values()),
        )

    async def _delta_history(self, config: Any, channels: Sequence[str]) -> Mapping[str, Any]:
        if not channels:
            return {}
        thread, namespace, checkpoint_id = _place(config)
        place = checkpoints_of(thread, namespace)
        entries: dict[str, Entry] = {}

        async def entry_of(wanted: str | None) -> Entry | None:
            key = checkpoint_key(wanted) if wanted else None
            if key not in entries:
                # Ancestors mostly follow: ids grow.
                found = await entries_in(self._items, place, first=key, count=50 if entries else 2)
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
            for write in reversed(self._pending(target)):
                if write[1] in written and write[1] not in seeds:
                    written[write[1]].append(write)
            for channel in written:
                if channel in record["values"] or channel in record["inline"]:
                    seeds.setdefault(channel, target)
        ancestors = {entry.item.key: entry for entry in seeds.values()}
        values = {
            checkpoint_key(found.checkpoint["id"]): found.checkpoint["channel_values"]
            for found in await self._tuples([*ancestors.values()])
        }
        history: dict[str, Any] = {}
        for channel in channels:
            history[channel] = {"writes": written[channel][::-1]}
            if channel in seeds and channel in values.get(seeds[channel].item.key, {}):
                history[channel]["seed"] = values[seeds[channel].item.key][channel]
        return history


# `list` is a method of the class.
list_of = list


def _place(config: Any) -> tuple[str, str, str | None]:
    settings = config["configurable"]
    thread = require_session_id(str(settings["thread_id"]), "thread_id")
    return thread, settings.get("checkpoint_ns") or "", settings.get("checkpoint_id") or None


def _user_id(config: Any) -> str | None:
    user_id = config["configurable"].get("user_id")
    return str(user_id) if user_id else None


def _config(thread: str, namespace: str, checkpoint_id: str, user_id: str | None) -> Any:
    settings = {
        "thread_id": thread,
        "checkpoint_ns": namespace,
        "checkpoint_id": checkpoint_id,
    }
    if user_id is not None:
        settings["user_id"] = user_id
    return {"configurable": settings}


def _matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(metadata.get(key) == value for key, value in wanted.items())
