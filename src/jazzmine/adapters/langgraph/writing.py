"""Storing checkpoints and pending writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, get_checkpoint_metadata

from jazzmine.adapters.langgraph.checkpoints import (
    Reference,
    Storage,
    Values,
    checkpoint_key,
    checkpoints_of,
    digests,
    encoded,
    is_inline,
    plain_metadata,
    writes_in,
    writes_item,
)
from jazzmine.adapters.langgraph.configs import place_of, user_of
from jazzmine.errors import ConflictError
from jazzmine.records.items import MemoryItem, PutItem

__all__ = ["Writer"]


class Writer(Storage):
    """Stores checkpoints and pending writes."""

    async def put(
        self,
        config: Any,
        checkpoint: Any,
        metadata: Any,
        new_versions: Any,
        *,
        refuse_stale: bool = False,
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
        known = self.checkpoints.get((thread, namespace, parent or ""), {})
        new = Values(self.serde, thread, user_id)
        inline: dict[str, Any] = {}
        values: dict[str, Reference] = {}
        for channel, value in channels.items():
            if is_inline(value):
                inline[channel] = value
                continue
            version, reference = known.get(channel, (None, None))
            is_known = channel not in new_versions and version == versions.get(channel)
            values[channel] = reference if reference and is_known else new.add(value)
        described: dict[str, Any] = {**get_checkpoint_metadata(config, metadata)}
        searched = plain_metadata(described)
        record = {
            "checkpoint": kept,
            "parent": parent,
            "inline": inline,
            "values": values,
            "metadata": {key: described[key] for key in described if key not in searched},
        }
        stored = digests(reference for _, reference in known.values())
        item = MemoryItem(
            namespace=checkpoints_of(thread, namespace),
            key=checkpoint_key(kept["id"]),
            value=searched,
            data=encoded(self.serde, record),
            user_id=user_id,
        )
        added = {digest: value for digest, value in new.items.items() if digest not in stored}
        changes = [*map(PutItem, added.values()), PutItem(item)]
        if refuse_stale:
            await self._apply_to_newest(item, parent, kept["id"], changes)
        else:
            await self.items.apply(changes)
        self.add_values(thread, {digest: value.data or b"" for digest, value in added.items()})
        self.add_checkpoint(
            (thread, namespace, kept["id"]),
            {name: (versions.get(name), reference) for name, reference in values.items()},
        )
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
