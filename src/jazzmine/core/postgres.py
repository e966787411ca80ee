"""The connections of a pool that an application makes for its stores on PostgreSQL."""

from jazzmine._async.clients.postgres.connection import Connection

__all__ = ["Connection"]
