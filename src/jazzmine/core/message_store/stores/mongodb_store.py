"""The message store in MongoDB, under the path that jazzmine 0.1 had for it."""

from __future__ import annotations

from jazzmine._async.message_store.mongodb import MongoDBMessageStore

__all__ = ["MongoDBMessageStore"]
