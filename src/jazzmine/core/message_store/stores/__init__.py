"""The message stores' back ends, under the path that jazzmine 0.1 had for them."""

from __future__ import annotations

from jazzmine._async.message_store.json import JSONMessageStore
from jazzmine._async.message_store.mongodb import MongoDBMessageStore
from jazzmine._async.message_store.postgres import PostgresMessageStore

__all__ = ["JSONMessageStore", "MongoDBMessageStore", "PostgresMessageStore"]
