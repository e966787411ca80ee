"""Which class is the message store of which configuration."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jazzmine.config import BackendConfig, JSONStoreConfig, MongoDBConfig, PostgresConfig

__all__ = ["new_store"]

# The class, and its module beside this one, which is imported when a store is made.
_STORES: dict[type[BackendConfig], tuple[str, str]] = {
    JSONStoreConfig: (".json", "JSONMessageStore"),
    MongoDBConfig: (".mongodb", "MongoDBMessageStore"),
    PostgresConfig: (".postgres", "PostgresMessageStore"),
}


def new_store(config: BackendConfig) -> Any:
    """Make the message store of a configuration, which is not open yet.

    Raises:
        ImportError: the back end's driver is not installed.
    """
    module, name = _STORES[type(config)]
    return getattr(import_module(module, __package__), name)(config)
