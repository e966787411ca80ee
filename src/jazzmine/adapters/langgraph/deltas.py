"""What was written to delta channels before a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jazzmine.adapters.langgraph.checkpoints import Entry, checkpoint_key, checkpoints_of, decoded
from jazzmine.adapters.langgraph.configs import place_of
from jazzmine.adapters.langgraph.reading import Reader
from jazzmine.adapters.langgraph.threads import entries_in

__all__ = ["delta_history"]


async def delta_history(reader: Reader, config: Any, channels: Sequence[str]) -> Mapping[str, Any]:
    """Return what was written to channels before a checkpoint, and their last values.

    Returns:
        For each channel `writes`, the earliest first, and `seed`, the value before them, if a
        checkpoint has one.
    """
    if not channels:
        return {}
    thread, namespace, checkpoint_id = place_of(config)
    place = checkpoints_of(thread, namespace)
    entries: dict[str, Entry] = {}

    async def entry_of(wanted: str | None) -> Entry | None:
        key = checkpoint_key(wanted) if wanted else None
        if key not in entries:
            # Ancestors mostly follow: ids grow.
            found = await entries_in(reader.items, place, first=key, count=50 if entries else 2)
            entries.update((entry.item.key, entry) for entry in found)
            key = key or (found[0].item.key if found else None)
        return entries.get(key or "")

    written: dict[str, Any] = {channel: [] for channel in channels}
    seeds: dict[str, Entry] = {}
    target = await entry_of(checkpoint_id)
    while target is not None and len(seeds) < len(written):
        parent = decoded(reader.serde, target.item.data)["parent"]
        target = await entry_of(parent) if parent else None
        if target is None:
            break
        record = decoded(reader.serde, target.item.data)
        for write in reversed(reader.pending(target)):
            if write[1] in written and write[1] not in seeds:
                written[write[1]].append(write)
        for channel in written:
            if channel in record["values"] or channel in record["inline"]:
                seeds.setdefault(channel, target)
    ancestors = {entry.item.key: entry for entry in seeds.values()}
    values = {
        checkpoint_key(found.checkpoint["id"]): found.checkpoint["channel_values"]
        for found in await reader.tuples([*ancestors.values()])
    }
    history: dict[str, Any] = {}
    for channel in channels:
        history[channel] = {"writes": written[channel][::-1]}
        if channel in seeds and channel in values.get(seeds[channel].item.key, {}):
            history[channel]["seed"] = values[seeds[channel].item.key][channel]
    return history
