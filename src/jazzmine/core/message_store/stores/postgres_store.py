"""The message store in PostgreSQL, under the path that jazzmine 0.1 had for it."""

from __future__ import annotations

from jazzmine._async.message_store.postgres import PostgresMessageStore

__all__ = ["PostgresMessageStore"]
