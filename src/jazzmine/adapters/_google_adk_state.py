"""The state that sessions of Google's ADK share: that of a user, and that of an app."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.sessions.state import State

from jazzmine.adapters._calls import retry_conflicts
from jazzmine.records.items import MemoryItem, PutItem

__all__ = ["SharedState", "split_state"]

_PREFIXES = (State.APP_PREFIX, State.USER_PREFIX)

# A change whose event is not stored after this time belongs to an append that failed.
_PENDING_MS = 3_600_000


class SharedState:
    """The state of apps and users, each of them one item of a long-term memory.

    A change of an event is stored before the event, as pending, and counts once the event is
    stored. So both take effect at once, also where their stores do not share a database. The next
    change makes those before it part of the state.

    Args:
        messages: the store of the events, with the async API.
        items: the long-term memory, with the async API.
    """

    def __init__(self, messages: Any, items: Any) -> None:
        self._messages, self._items = messages, items

    async def read(self, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of an app and of a user, with prefixed keys."""
        return (await self.read_all(app_name, [user_id]))[user_id]

    async def read_all(self, app_name: str, user_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the state of an app and of each of some users, by user."""
        app, *users = await self._items_of(app_name, user_ids)
        stored = await self._stored_ids([app, *users])
        shared = _prefixed(State.APP_PREFIX, _state(app, stored)[0])
        return {
            user_id: {**shared, **_prefixed(State.USER_PREFIX, _state(user, stored)[0])}
            for user_id, user in zip(user_ids, users, strict=True)
        }

    async def change(
        self, app_name: str, user_id: str, changes: Mapping[str, Any], message_id: str | None = None
    ) -> None:
        """Change state, repeatedly if another writer comes between.

        Args:
            app_name: the app.
            user_id: the user.
            changes: the new values, by prefixed keys.
            message_id: the message that they count with; None is at once.
        """
        split = {
            prefix: {
                key.removeprefix(prefix): value
                for key, value in changes.items()
                if key.startswith(prefix)
            }
            for prefix in _PREFIXES
        }
        if not any(split.values()):
            return

        async def attempt() -> None:
            items = await self._items_of(app_name, [user_id])
            stored = await self._stored_ids(items, message_id)
            if message_id in stored:
                return  # the append of the event is repeated
            puts = [
                _put(item, stored, split[prefix], message_id)
                for prefix, item in zip(_PREFIXES, items, strict=True)
                if split[prefix]
            ]
            await self._items.apply(puts)

        await retry_conflicts(attempt)

    async def _items_of(self, app_name: str, user_ids: Sequence[str]) -> list[MemoryItem]:
        """Return the item of an app and those of users; one that is not stored is empty."""
        app = ("google_adk", app_name)
        empty = [MemoryItem(namespace=app, key="state", value={})]
        empty += [
            MemoryItem(namespace=(*app, user_id), key="state", value={}, user_id=user_id)
            for user_id in user_ids
        ]
        found = await self._items.get_many([(item.namespace, item.key) for item in empty])
        return [item or none for item, none in zip(found, empty, strict=True)]

    async def _stored_ids(
        self, items: Sequence[MemoryItem], message_id: str | None = None
    ) -> set[str]:
        """Return which of the messages are stored that changes are pending for."""
        ids = {change["message"] for item in items for change in item.value.get("pending", ())}
        if message_id is not None:
            ids.add(message_id)
        found = await self._messages.get_messages_by_ids(sorted(ids)) if ids else []
        return {message.id for message in found}


def split_state(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the part of a state that is a session's own, and the part that sessions share.

    Temporary state is in neither.
    """
    own, shared = {}, {}
    for key, value in state.items():
        if key.startswith(_PREFIXES):
            shared[key] = value
        elif not key.startswith(State.TEMP_PREFIX):
            own[key] = value
    return own, shared


def _prefixed(prefix: str, state: dict[str, Any]) -> dict[str, Any]:
    return {prefix + key: value for key, value in state.items()}


def _state(item: MemoryItem, stored: set[str]) -> tuple[dict[str, Any], list[Any]]:
    """Return the state of an item, and the changes that may still be made."""
    state: dict[str, Any] = json.loads(item.value.get("state", "{}"))
    pending: list[Any] = []
    oldest = _now() - _PENDING_MS
    for change in item.value.get("pending", ()):
        if change["message"] in stored:
            state.update(json.loads(change["delta"]))
        elif change["at"] >= oldest:
            pending.append(change)
    return state, pending


def _put(
    item: MemoryItem, stored: set[str], delta: dict[str, Any], message_id: str | None
) -> PutItem:
    state, pending = _state(item, stored)
    if message_id is None:
        state.update(delta)
    else:
        pending = [change for change in pending if change["message"] != message_id]
        pending.append({"message": message_id, "at": _now(), "delta": json.dumps(delta)})
    value = {"state": json.dumps(state), "pending": pending}
    changed = item.model_copy(update={"value": value})
    return PutItem(changed, expected_revision=item.revision or None)


def _now() -> int:
    return time.time_ns() // 1_000_000
