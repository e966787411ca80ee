"""The checkpoints of LangGraph's graphs in a long-term memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from jazzmine._async.long_term_memory.store import LongTermMemoryStore as AsyncItems
from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import require_session_id, require_several
from jazzmine.adapters._steps import Steps
from jazzmine.adapters.langgraph.checkpoints import KnownCheckpoint
from jazzmine.adapters.langgraph.configs import config_of, place_of, text_id, user_of
from jazzmine.adapters.langgraph.conversation import Projection
from jazzmine.adapters.langgraph.pruning import copy_thread, delete_runs, delete_thread, keep_latest
from jazzmine.adapters.langgraph.recorder import JazzmineRecorder
from jazzmine.adapters.langgraph.storage import Storage
from jazzmine.errors import ConfigurationError

# The thread and the checkpoint, if the config names one, where the run of a context has begun.
_TRAVELS: ContextVar[tuple[str, str] | None] = ContextVar("jazzmine_travels", default=None)


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
        refuse_stale: whether a checkpoint raises `ConflictError` if its parent is not the newest
            one of the thread any more. So of two runs of one thread at once none loses the other's
            turn in silence: run it again. A config that names a `checkpoint_id` (time travel) is
            exempt.

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
        refuse_stale: bool = False,
    ) -> None:
        super().__init__(serde=serde)
        self._refuses_stale = refuse_stale
        self._steps = Steps(items, (AsyncItems, LongTermMemoryStore))
        self._items: Any = self._steps.store
        self._projection: Projection | None = None
        require_session_id(agent_id, "agent_id")
        if messages is not None:
            if isinstance(self.serde, EncryptedSerializer):
                raise ConfigurationError(
                    "messages would be readable beside checkpoints that serde encrypts: pass one"
                )
            steps = Steps(messages, (AsyncMessageStore, MessageStore))
            if steps.is_async != self._steps.is_async:
                raise TypeError("items and messages must be of the same API, async or sync")
            self._projection = Projection(steps, agent_id)
        self._known: dict[tuple[str, str, str], KnownCheckpoint] = {}

    def get_next_version(self, current: Any, channel: None) -> str:
        """Return a version later than `current`, which no other branch has."""
        number = int(str(current).split(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{uuid4().hex}"

    def recorder(self) -> JazzmineRecorder:
        """Return a callback handler, which stores the traces of runs beside their messages.

        A trace is stored in one step with messages of its run, and at the end of the run, for
        configs with a `user_id`; with a flagged message, if the run stores no `messages`. Runs with
        this recorder may be of any number of threads, and several of one thread, at once.

        Raises:
            ConfigurationError: the saver has no message store.
        """
        if self._projection is None:
            raise ConfigurationError("traces are stored beside messages: pass a message store")
        return self._projection.recorder

    # Plain calls

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """Return the checkpoint of a config, or the latest one, or None."""
        self._note_run(config)
        return self._steps.plain(self._storage.get(config))

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
        pages = self._storage.listed(config, filter, before, limit)
        while page := self._steps.plain(_next(pages)):
            yield from page

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint after that of the config, and return its own config."""
        return self._steps.plain(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written after a checkpoint; what it wrote before stays."""
        self._steps.plain(self._storage.put_writes(config, writes, (task_id, task_path)))

    def delete_thread(self, thread_id: str) -> None:
        """Delete all checkpoints of a thread, and its conversation."""
        self._steps.plain(self._delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs."""
        self._steps.plain(delete_runs(self._storage, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread to another one."""
        self._steps.plain(copy_thread(self._storage, source_thread_id, target_thread_id))

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
        return self._steps.plain(self._storage.delta_history(config, channels))

    # Coroutines

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """Do the same as `get_tuple`."""
        self._note_run(config)
        return await self._steps.awaited(self._storage.get(config))

    async def alist(
        self,
        config: Any,
        *,
        filter: dict[str, Any] | None = None,
        before: Any = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do the same as `list`."""
        pages = self._storage.listed(config, filter, before, limit)
        while page := await self._steps.awaited(_next(pages)):
            for checkpoint in page:
                yield checkpoint

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Do the same as `put`."""
        return await self._steps.awaited(self._put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do the same as `put_writes`."""
        await self._steps.awaited(self._storage.put_writes(config, writes, (task_id, task_path)))

    async def adelete_thread(self, thread_id: str) -> None:
        """Do the same as `delete_thread`."""
        await self._steps.awaited(self._delete_thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do the same as `delete_for_runs`."""
        await self._steps.awaited(delete_runs(self._storage, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do the same as `copy_thread`."""
        await self._steps.awaited(copy_thread(self._storage, source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do the same as `prune`."""
        await self._steps.awaited(self._prune(thread_ids, strategy))

    async def aget_delta_channel_history(
        self, *, config: Any, channels: Sequence[str]
    ) -> Mapping[str, Any]:
        """Do the same as `get_delta_channel_history`."""
        return await self._steps.awaited(self._storage.delta_history(config, channels))

    # The steps

    # LangGraph changes the serializer of a copy of the saver.

    @property
    def _storage(self) -> Storage:
        return Storage(self._items, self.serde, self._known)

    def _note_run(self, config: Any) -> None:
        """Note whether a run begins at the newest checkpoint, or at one that its config names."""
        thread, namespace, checkpoint_id = place_of(config)
        user_id = user_of(config)
        if self._projection is not None and user_id is not None:
            self._projection.recorder.note_user(thread, user_id)
        # LangGraph then asks for the newest one, too, with None for the checkpoint.
        if not namespace and (checkpoint_id or "checkpoint_id" not in config["configurable"]):
            _TRAVELS.set((thread, checkpoint_id) if checkpoint_id else None)

    async def _put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread, namespace, parent = place_of(config)
        user_id = user_of(config)
        has_travelled = _TRAVELS.get() == (thread, parent) or metadata.get("source") == "fork"
        refuses = self._refuses_stale and not namespace and not has_travelled
        values = await self._storage.put(
            config, checkpoint, metadata, new_versions, refuse_stale=refuses
        )
        own = config_of(thread, namespace, checkpoint["id"], user_id)
        said = checkpoint["channel_values"].get("messages")
        said = getattr(said, "value", said)  # a delta channel has a snapshot, or none
        is_delta = "messages" in (metadata.get("counters_since_delta_snapshot") or ())
        if (
            self._projection is not None
            and user_id is not None
            and not namespace
            and "messages" in new_versions
            and (is_delta or type(said) is list)
        ):
            await self._projection.add(self._storage, own, said, values.get("messages"))
        return own

    async def _delete_thread(self, thread_id: str) -> None:
        thread = text_id(thread_id)
        await delete_thread(self._storage, thread)
        if self._projection is not None:
            await self._projection.delete(thread)

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy must be 'keep_latest' or 'delete', not {strategy!r}")
        require_several(thread_ids, "thread_ids")
        for thread in map(text_id, thread_ids):
            if strategy == "delete":
                await delete_thread(self._storage, thread)
            else:
                await keep_latest(self._storage, thread)


async def _next(pages: AsyncIterator[list[CheckpointTuple]]) -> list[CheckpointTuple] | None:
    return await anext(pages, None)
