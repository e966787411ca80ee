"""psycopg's async pool."""

from __future__ import annotations

from psycopg_pool import AsyncConnectionPool

__all__ = ["DriverPool"]

DriverPool = AsyncConnectionPool
