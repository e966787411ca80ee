"""What a store's class and its configuration refuse before anything is opened."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import ConfigurationError, core, sync
from jazzmine.config import PostgresConfig

CLASSES = [
    "JSONMessageStore",
    "MongoDBMessageStore",
    "PostgresMessageStore",
    "PostgresWorkingMemoryStore",
    "SQLiteMessageStore",
    "SQLiteWorkingMemoryStore",
]


@pytest.mark.parametrize("api", [core, sync], ids=["core", "sync"])
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("wrong", ["messages.db", {"path": "messages.db"}, None], ids=repr)
def test_a_class_that_is_called_with_an_address_names_initialize(
    api: Any, name: str, wrong: object
) -> None:
    kind = type(wrong).__name__
    with pytest.raises(TypeError, match=rf"Config, not {kind}; .* call initialize\(\)"):
        getattr(api, name)(wrong)


def test_a_pool_that_is_smaller_than_its_least_size_is_refused_with_both() -> None:
    with pytest.raises(ConfigurationError, match="pool_max must not be less than pool_min: 1 < 2"):
        PostgresConfig(dsn="postgresql://db.example/agents", pool_max=1)
    with pytest.raises(ConfigurationError, match="pool_max must be 1 or more, not 0"):
        PostgresConfig(dsn="postgresql://db.example/agents", pool_min=0, pool_max=0)
