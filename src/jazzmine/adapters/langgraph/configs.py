"""What a graph's config says: its thread, namespace and checkpoint, and whose run it is."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jazzmine.adapters._calls import require_session_id


def text_id(given: object, name: str = "thread_id") -> str:
    """Return an id as text; graphs may have numbers and UUIDs as ids.

    Raises:
        ValueError: it is missing: None, False or "".
        TypeError: it is of another type.
    """
    is_number = isinstance(given, int) and not isinstance(given, bool)
    if is_number or isinstance(given, UUID):
        return str(given)
    return require_session_id(None if given is False else given, name)


def place_of(config: Any) -> tuple[str, str, str | None]:
    """Return the thread, the namespace and the checkpoint of a config; None is the latest."""
    settings = config["configurable"]
    return (
        text_id(settings.get("thread_id")),
        settings.get("checkpoint_ns") or "",
        settings.get("checkpoint_id") or None,
    )


def user_of(config: Any) -> str | None:
    """Return the user whose run a config is of, if it says so; the config may be None."""
    user_id = config.get("configurable", {}).get("user_id") if config else None
    return None if user_id is None or user_id == "" else text_id(user_id, "user_id")


def config_of(thread: str, namespace: str, checkpoint_id: str, user_id: str | None) -> Any:
    """Return the config of a checkpoint, for a run of a user."""
    place = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
    return {"configurable": place if user_id is None else {**place, "user_id": user_id}}
