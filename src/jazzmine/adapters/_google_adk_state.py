"""The state that sessions of Google's ADK share: that of a user, and that of an app."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.sessions.state import State

from jazzmine.adapters._calls import retry_conflicts
from jazzmine.adapters._encoding import decoded, encoded
from jazzmine.records.items import MemoryItem, PutItem
from jazzmine.records.messages import Conversation

# The key in the metadata of a session's conversation of what the session began with.
SESSION_KEY = "google_adk_session"

_PREFIXES = (State.APP_PREFIX, State.USER_PREFIX)

# A change whose cause is not stored after this time belongs to a call that failed.
_PENDING_MS = 3_600_000

# What a change counts with: ("message", id), or ("session", id of its conversation, token).
Cause = tuple[str, ...]


class SharedState:
    """The state of apps and users, each of them one item of a long-term memory.

    A change is stored before the event or the session that makes it, as pending, and counts once
    that is stored. So both take effect at once, also where their stores do not share a database.
    After that the change is made part of the state, so that it stays when its cause is deleted.
    """

    def __init__(self, messages: Any, items: Any) -> None:
        self._messages, self._items = messages, items

    async def read(self, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of an app and of a user, with prefixed keys."""
        return (await self.read_all(app_name, [user_id]))[user_id]

    async def read_all(self, app_name: str, user_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the state of an app and of each of some users, by user."""
        items = await self._items_of(app_name, user_ids)
        stored = await self._stored_causes(_causes(items))
        shared, *states = (_state(item, stored)[0] for item in items)
        return {
            user_id: {**shared, **state} for user_id, state in zip(user_ids, states, strict=True)
        }

    async def change(
        self, app_name: str, user_id: str, changes: Mapping[str, Any], cause: Cause
    ) -> None:
        """Store changes of state that are pending until their cause is stored.

        If it is stored already, because the call is repeated, nothing is changed.
        """
        split = [
            {key: value for key, value in changes.items() if key.startswith(prefix)}
            for prefix in _PREFIXES
        ]

        async def attempt() -> None:
            items = await self._items_of(app_name, [user_id])
            stored = await self._stored_causes([*_causes(items), cause])
            if cause not in stored:
                await self._items.apply(
                    _put(item, stored, {"cause": cause, "at": _now(), "delta": encoded(delta)})
                    for item, delta in zip(items, split, strict=True)
                    if delta
                )

        await retry_conflicts(attempt)

    async def settle(self, app_name: str, user_id: str, cause: Cause) -> None:
        """Make the changes whose cause is stored now a part of the state."""

        async def attempt() -> None:
            items = await self._items_of(app_name, [user_id])
            pending = [item for item in items if cause in _causes([item])]
            await self._items.apply(_put(item, {cause}) for item in pending)

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

    async def _stored_causes(self, causes: Sequence[Cause]) -> set[Cause]:
        """Return those causes that are stored."""
        ids = sorted({cause[1] for cause in causes if cause[0] == "message"})
        messages = await self._messages.get_messages_by_ids(ids) if ids else ()
        stored: set[Cause] = {("message", message.id) for message in messages}
        for conversation_id in {cause[1] for cause in causes if cause[0] == "session"}:
            conversation = await self._messages.get_conversation_by_id(conversation_id)
            if conversation is not None and SESSION_KEY in conversation.metadata:
                stored.add(session_cause(conversation))
        return stored


def session_cause(conversation: Conversation) -> Cause:
    """Return a session as what changes count with; another one of the same id is another cause."""
    return "session", conversation.id, decoded(conversation.metadata[SESSION_KEY])["token"]


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


def _causes(items: Sequence[MemoryItem]) -> list[Cause]:
    """Return what the changes of items that are pending count with."""
    return [tuple(change["cause"]) for item in items for change in item.value.get("pending", ())]


def _state(item: MemoryItem, stored: set[Cause]) -> tuple[dict[str, Any], list[Any]]:
    """Return the state of an item, and the changes that may still be made."""
    state: dict[str, Any] = decoded(item.value.get("state", "{}"))
    pending: list[Any] = []
    oldest = _now() - _PENDING_MS
    for change in item.value.get("pending", ()):
        if tuple(change["cause"]) in stored:
            state.update(decoded(change["delta"]))
        elif change["at"] >= oldest:
            pending.append(change)
    return state, pending


def _put(item: MemoryItem, stored: set[Cause], added: Mapping[str, Any] | None = None) -> PutItem:
    """Return the change of an item that makes what is stored part of its state, and adds one."""
    state, pending = _state(item, stored)
    if added is not None:
        pending = [change for change in pending if tuple(change["cause"]) != added["cause"]]
        pending.append(added)
    value = {"state": encoded(state), "pending": pending}
    changed = item.model_copy(update={"value": value})
    return PutItem(changed, expected_revision=item.revision or None)


def _now() -> int:
    return time.time_ns() // 1_000_000
