"""The message store in a JSON file, under the path that jazzmine 0.1 had for it."""

from __future__ import annotations

from jazzmine._async.message_store.json import JSONMessageStore

__all__ = ["JSONMessageStore"]
