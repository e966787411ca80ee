"""Copying threads from another saver of LangGraph's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import groupby
from typing import Any

from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
)

from jazzmine.adapters.langgraph.checkpoints import encoded
from jazzmine.adapters.langgraph.configs import config_of
from jazzmine.adapters.langgraph.known import Known
from jazzmine.adapters.langgraph.saver import JazzmineSaver
from jazzmine.adapters.langgraph.writing import Writer
from jazzmine.errors import JazzmineError

__all__ = ["copy_threads"]


def copy_threads(
    old: BaseCheckpointSaver[Any],
    new: JazzmineSaver,
    threads: Iterable[str],
    *,
    user_id: str | None = None,
) -> Iterator[str]:
    """Copy all checkpoints of threads from another saver, and yield each thread that is done.

    They are copied one by one, and each copy is read again and compared. Repeated, it stores the
    same once more, and nothing is doubled. The graphs that write to the old saver have to be
    stopped before.

    Args:
        old: a saver with plain calls, such as LangGraph's PostgresSaver or SqliteSaver.
        new: where they are copied to.
        threads: the ids of the threads.
        user_id: whose they become; by default, of each checkpoint, the user that its run's config
            had, which LangGraph keeps in the metadata.

    Raises:
        JazzmineError: a copy differs from its checkpoint.
        StoreUnavailableError: the server of the new saver cannot be reached.
    """
    for thread in threads:
        configs = [found.config for found in old.list({"configurable": {"thread_id": thread}})]
        # What `new` has in memory is not asked.
        reader = copy(new)
        reader._known = Known()
        # Parents first: most values of a checkpoint are stored with its parent.
        for config in reversed(configs):
            source = old.get_tuple(config)
            if source is not None:
                _copy(source, new, reader, thread, user_id)
        yield thread


def _copy(
    source: CheckpointTuple,
    new: JazzmineSaver,
    reader: JazzmineSaver,
    thread: str,
    user_id: str | None,
) -> None:
    namespace = source.config["configurable"].get("checkpoint_ns") or ""
    given: Any = source.metadata
    owner = user_id or given.get("user_id")
    before = config_of(thread, namespace, _parent(source) or "", owner)
    checkpoint: Any = source.checkpoint
    versions = checkpoint["channel_versions"]
    new._steps.plain(Writer(*new._storage).put(before, checkpoint, given, versions))
    config = config_of(thread, namespace, checkpoint["id"], owner)
    for task, writes in groupby(_writes(source), key=lambda write: write[0]):
        new.put_writes(config, [(channel, value) for _, channel, value in writes], task)
    found = reader.get_tuple(config)
    expected = _parts(source, get_checkpoint_metadata(before, given))
    copied = {} if found is None else _parts(found, found.metadata)
    for name in {**expected, **copied}:
        ours, theirs = copied.get(name), expected.get(name)
        # NaN is not equal to itself, and a set may have another order.
        if encoded(new.serde, ours) != encoded(new.serde, theirs) and bool(ours != theirs):
            raise JazzmineError(
                f"the copy of the checkpoint {checkpoint['id']!r} of the thread {thread!r} differs"
                f" in its {name}"
            )


def _parts(found: CheckpointTuple, metadata: Any) -> dict[str, Any]:
    """Return what is compared of a checkpoint, by its name for a person."""
    values = found.checkpoint["channel_values"]
    return {
        "parent": _parent(found),
        "metadata": metadata,
        "checkpoint": {**found.checkpoint, "channel_values": None},
        "pending writes": _writes(found),
        **{f"channel {name!r}": value for name, value in values.items()},
    }


def _parent(found: CheckpointTuple) -> str | None:
    parent = found.parent_config
    return parent["configurable"]["checkpoint_id"] if parent else None


def _writes(found: CheckpointTuple) -> list[Any]:
    return sorted(found.pending_writes or [], key=lambda write: write[:2])
