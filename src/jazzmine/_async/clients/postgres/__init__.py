"""Connections to PostgreSQL: statements, deadlines and migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine.backends.postgres.schema import Component
from jazzmine.config import PostgresConfig
from jazzmine.extras import extra

if TYPE_CHECKING:
    from jazzmine._async.clients.postgres.client import PostgresClient


def new_client(config: PostgresConfig, *components: Component) -> PostgresClient:
    """Import the driver, and return a client that is not open yet.

    Raises:
        ImportError: the driver is not installed.
    """
    with extra("postgres", "PostgreSQL"):
        from jazzmine._async.clients.postgres.client import PostgresClient
    return PostgresClient(config, *components)
