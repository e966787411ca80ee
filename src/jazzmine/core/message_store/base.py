"""The message store, under the path that jazzmine 0.1 had for it."""

from __future__ import annotations

from jazzmine._async.message_store.store import MessageStore

__all__ = ["MessageStore"]
