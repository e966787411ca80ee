"""Checks of a Redis set-up, from a server's replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine.findings import Finding, failed, fine, warning

__all__ = ["check_eviction", "check_persistence", "check_version"]

_OLDEST = (6, 2)


def check_version(name: str) -> Finding:
    """Return whether a server's version is supported."""
    numbers = tuple(int(part) for part in name.split(".")[:2] if part.isdecimal())
    if numbers < _OLDEST:
        return failed(f"Redis {name} is too old", "upgrade the server to 6.2 or newer")
    return fine(f"Redis {name}")


def check_persistence(info: Mapping[str, Any], save: str | None) -> Finding:
    """Return whether stored data survive a restart of the server.

    Args:
        info: its section `persistence`.
        save: the setting of that name, or None if it may not be read.
    """
    if info.get("aof_enabled"):
        return fine("the append-only file is on")
    if save is None:
        return warning(
            "the append-only file is off, and the user may not read the setting `save`",
            "see that the server has `appendonly yes`, or at least `save 60 1000`",
        )
    if save:
        return warning(
            f"there are snapshots alone (save {save}): a crash loses what came after the last one",
            "CONFIG SET appendonly yes, and `appendonly yes` in redis.conf",
        )
    return failed(
        "nothing is kept on the disk: a restart of Redis loses all working memory",
        "CONFIG SET appendonly yes, and `appendonly yes` in redis.conf",
    )


def check_eviction(policy: str | None, limit: int) -> Finding:
    """Return whether the server deletes data in use when its memory is full."""
    if policy is None or not limit or policy == "noeviction":
        return fine("no working memory is deleted to make room")
    return warning(
        f"with maxmemory-policy {policy} a full server deletes working memory that is in use",
        "CONFIG SET maxmemory-policy noeviction, and a maxmemory that is large enough",
    )
