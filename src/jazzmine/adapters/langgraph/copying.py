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
from langgraph.checkpoint.serde.base import SerializerProtocol

from jazzmine.adapters.langgraph.checkpoints import encoded
from jazzmine.adapters.langgraph.configs import config_of
from jazzmine.adapters.langgraph.known import Known
from jazzmine.adapters.langgraph.saver import JazzmineSaver
from jazzmine.errors import JazzmineError

__all__ = ["copy_threads"]

_PAGE = 20


def copy_threads(
    old: BaseCheckpointSaver[Any],
    new: JazzmineSaver,
    threads: Iterable[str],
    *,
    user_id: str | None = None,
) -> Iterator[str]:
    """Copy all checkpoints of threads from another saver, and yield each thread that is done.

    They are read a page at a time, the latest first, and each copy is read again and compared.
    Repeated, it stores the same once more, and nothing is doubled. The graphs that write to the old
    saver have to be stopped before.

    Args:
        old: a saver with plain calls, such as LangGraph's PostgresSaver or SqliteSaver.
        new: where they are copied to.
        threads: the ids of the threads.
        user_id: whose they become; by default, of each checkpoint, the user that its run's config
            had, which LangGraph keeps in the metadata.

    Raises:
        JazzmineError: a copy differs from its checkpoint.
        ValueError: the old saver does not list the latest checkpoints first.
        StoreUnavailableError: the server of the new saver cannot be reached.
    """
    for thread in threads:
        latest: dict[str, str] = {}
        for page in _pages(old, thread):
            copies = [_copied(source, new, thread, user_id, latest) for source in page]
            # What `new` has in memory is not asked.
            reader = copy(new)
            reader._known = Known()
            for source, (config, metadata) in zip(page, copies, strict=True):
                found = reader.get_tuple(config)
                part = "all" if found is None else _difference(source, metadata, found, new.serde)
                if part:
                    raise JazzmineError(
                        f"the copy of the checkpoint {source.checkpoint['id']!r} of the thread"
                        f" {thread!r} differs in its {part}"
                    )
        yield thread


def _pages(old: BaseCheckpointSaver[Any], thread: str) -> Iterator[list[CheckpointTuple]]:
    config: Any = {"configurable": {"thread_id": thread}}
    before: Any = None
    while True:
        page = list(old.list(config, before=before, limit=_PAGE + 1))
        if len(page) <= _PAGE:
            yield page
            return
        # The next page is of lower ids: checkpoints of one id (in other namespaces) stay together.
        ids = [source.checkpoint["id"] for source in page]
        if ids != sorted(ids, reverse=True):
            raise ValueError("the old saver has not listed the latest checkpoints first")
        last_id = ids[-1]
        page = [source for source in page if source.checkpoint["id"] != last_id]
        yield page
        before = page[-1].config


def _copied(
    source: CheckpointTuple,
    new: JazzmineSaver,
    thread: str,
    user_id: str | None,
    latest: dict[str, str],
) -> tuple[Any, Any]:
    """Copy a checkpoint, and return the config and the metadata of its copy.

    Args:
        one: the checkpoint.
        new: where it is copied to.
        thread: its thread.
        user_id: whose it becomes, unless it is None.
        latest: the id of the one that was copied last, by namespace: most values are its values,
            too, and are stored already.
    """
    place = source.config["configurable"]
    namespace = place.get("checkpoint_ns") or ""
    metadata: Any = source.metadata
    owner = user_id or metadata.get("user_id")
    parent = source.parent_config["configurable"]["checkpoint_id"] if source.parent_config else None
    checkpoint: Any = source.checkpoint
    before = config_of(thread, namespace, parent or "", owner)
    new._steps.plain(
        new._writer.put(
            before,
            checkpoint,
            metadata,
            checkpoint["channel_versions"],
            beside=latest.get(namespace),
        )
    )
    latest[namespace] = checkpoint["id"]
    config = config_of(thread, namespace, checkpoint["id"], owner)
    by_task = sorted(source.pending_writes or [], key=lambda write: write[0])
    for task, writes in groupby(by_task, key=lambda write: write[0]):
        new.put_writes(config, [(channel, value) for _, channel, value in writes], task)
    return config, get_checkpoint_metadata(before, metadata)


def _difference(
    old: CheckpointTuple, metadata: Any, new: CheckpointTuple, serde: SerializerProtocol
) -> str | None:
    """Return the name of a part in which a copy differs, or None."""
    parents = [
        side.parent_config and side.parent_config["configurable"]["checkpoint_id"]
        for side in (old, new)
    ]
    if parents[0] != parents[1]:
        return "parent"
    if metadata != new.metadata:
        return "metadata"
    rests = [{**side.checkpoint, "channel_values": None} for side in (old, new)]
    if rests[0] != rests[1]:
        return "checkpoint"
    channels = [side.checkpoint["channel_values"] for side in (old, new)]
    if channels[0].keys() != channels[1].keys():
        return "channels"
    for name, value in channels[0].items():
        if not _is_equal(value, channels[1][name], serde):
            return f"channel {name!r}"
    writes = [sorted(side.pending_writes or [], key=lambda write: write[:2]) for side in (old, new)]
    if [write[:2] for write in writes[0]] != [write[:2] for write in writes[1]] or not all(
        _is_equal(first[2], second[2], serde) for first, second in zip(*writes, strict=True)
    ):
        return "pending writes"
    return None


def _is_equal(old: Any, new: Any, serde: SerializerProtocol) -> bool:
    # NaN is not equal to itself, and a set may have another order.
    return encoded(serde, old) == encoded(serde, new) or bool(old == new)
