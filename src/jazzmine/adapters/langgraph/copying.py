"""Copying threads from another saver of LangGraph's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from jazzmine.adapters.langgraph.configs import config_of
from jazzmine.adapters.langgraph.saver import JazzmineSaver
from jazzmine.adapters.langgraph.writing import Writer

__all__ = ["copy_threads"]


def copy_threads(
    old: BaseCheckpointSaver[Any],
    new: JazzmineSaver,
    threads: Iterable[str],
    *,
    user_id: str | None = None,
) -> Iterator[str]:
    """Copy all checkpoints of threads from another saver, and yield each thread that is done.

    Repeated, it stores the same once more, and nothing is doubled. The graphs that write to the old
    saver have to be stopped before.

    Args:
        old: a saver with plain calls, such as LangGraph's PostgresSaver or SqliteSaver.
        new: where they are copied to.
        threads: the ids of the threads.
        user_id: whose they become; by default, of each checkpoint, the user that its run's config
            had, which LangGraph keeps in the metadata.

    Raises:
        StoreUnavailableError: the server of the new saver cannot be reached.
    """
    for thread in threads:
        configs = [found.config for found in old.list({"configurable": {"thread_id": thread}})]
        # Parents first: most values of a checkpoint are stored with its parent.
        for config in reversed(configs):
            source = old.get_tuple(config)
            if source is not None:
                _copy(source, new, thread, user_id)
        yield thread


def _copy(source: CheckpointTuple, new: JazzmineSaver, thread: str, user_id: str | None) -> None:
    namespace = source.config["configurable"].get("checkpoint_ns") or ""
    metadata: Any = source.metadata
    owner = user_id or metadata.get("user_id")
    parent = source.parent_config
    before = parent["configurable"]["checkpoint_id"] if parent else ""
    checkpoint: Any = source.checkpoint
    # Not `put`, which would add to the conversation beside the thread.
    put = Writer(*new._storage).put(
        config_of(thread, namespace, before, owner),
        checkpoint,
        metadata,
        checkpoint["channel_versions"],
    )
    new._steps.plain(put)
    config = config_of(thread, namespace, checkpoint["id"], owner)
    writes = sorted(source.pending_writes or [], key=lambda write: write[:2])
    for task, of_task in groupby(writes, key=lambda write: write[0]):
        new.put_writes(config, [(channel, value) for _, channel, value in of_task], task)
