"""What a graph's config says: its thread, namespace and checkpoint, and whose run it is."""

from __future__ import annotations

from typing import Any

from jazzmine.adapters._calls import require_session_id

__all__ = ["config_of", "place_of", "user_of"]


def place_of(config: Any) -> tuple[str, str, str | None]:
    """Return the thread, the namespace and the checkpoint of a config; None is the latest."""
    settings = config["configurable"]
    thread = require_session_id(str(settings["thread_id"]), "thread_id")
    return thread, settings.get("checkpoint_ns") or "", settings.get("checkpoint_id") or None


def user_of(config: Any) -> str | None:
    """Return the user whose run a config is of, if it says so; the config may be None."""
    user_id = config["configurable"].get("user_id") if config else None
    return str(user_id) if user_id else None


def config_of(thread: str, namespace: str, checkpoint_id: str, user_id: str | None) -> Any:
    """Return the config of a checkpoint, for a run of a user."""
    settings = {
        "thread_id": thread,
        "checkpoint_ns": namespace,
        "checkpoint_id": checkpoint_id,
    }
    if user_id is not None:
        settings["user_id"] = user_id
    return {"configurable": settings}
