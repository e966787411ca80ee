"""Names that are imported when they are first used, so that importing a package costs little.

The records need pydantic, whose import can take longer than a whole script runs, and the module
of a store imports its driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

MESSAGE_RECORDS = (
    "jazzmine.records.log",
    "jazzmine.records.messages",
    "jazzmine.records.traces",
    "jazzmine.records.turn_recorder",
    "jazzmine.records.usage",
)
MEMORY_RECORDS = (
    "jazzmine.records.enums",
    "jazzmine.records.tool_call",
    "jazzmine.records.flow",
    "jazzmine.records.turn",
    "jazzmine.records.working_memory",
)
ITEM_RECORDS = ("jazzmine.records.items",)

# The module of each class in the folder of a kind of store.
_STORES = {
    "message_store": {
        "MessageStore": "store",
        "JSONMessageStore": "json",
        "InMemoryMessageStore": "sqlite",
        "MongoDBMessageStore": "mongodb",
        "PostgresMessageStore": "postgres",
        "SQLiteMessageStore": "sqlite",
    },
    "working_memory": {
        "WorkingMemoryStore": "store",
        "InMemoryWorkingMemoryStore": "memory",
        "PostgresWorkingMemoryStore": "postgres",
        "RedisWorkingMemoryStore": "redis",
        "SQLiteWorkingMemoryStore": "sqlite",
    },
    "long_term_memory": {
        "LongTermMemoryStore": "store",
        "InMemoryLongTermMemoryStore": "sqlite",
        "MongoDBLongTermMemoryStore": "mongodb",
        "PostgresLongTermMemoryStore": "postgres",
        "SQLiteLongTermMemoryStore": "sqlite",
    },
}


def stores(api: str, kind: str) -> dict[str, str]:
    """Return the modules of the stores of a kind in `_async` or `_sync`, by their names."""
    return {name: f"jazzmine.{api}.{kind}.{module}" for name, module in _STORES[kind].items()}


def attach(
    namespace: dict[str, Any],
    modules: Sequence[str],
    others: Mapping[str, str] | None = None,
    elsewhere: Sequence[str] = (),
) -> None:
    """Give a module a `__getattr__`, an `__all__` and a `__dir__` (PEP 562).

    Args:
        namespace: the module's `globals()`, to which each name is added when it is first used.
        modules: the modules whose `__all__` it exports, in the order of the search for a name.
        others: the modules of further names: `{name: module}`.
        elsewhere: modules with further names, for the text of an ImportError.
    """
    named = dict(others or {})

    def find(name: str) -> Any:
        if name == "__all__":
            public = {public for module in modules for public in import_module(module).__all__}
            return sorted(public.union(name for name in named if not name.startswith("_")))
        if name in named:
            return getattr(import_module(named[name]), name)
        if not name.startswith("_"):
            for module in map(import_module, modules):
                if name in module.__all__:
                    return getattr(module, name)
            homes = [other for other in elsewhere if name in import_module(other).__all__]
            if homes:
                # "from jazzmine import X" would replace the text of an AttributeError.
                lines = " or ".join(f"from {home} import {name}" for home in homes)
                where = "the async and in the sync API" if homes[1:] else "another module"
                raise ImportError(f"{name} is in {where}: {lines}")
        raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")

    def __getattr__(name: str) -> Any:
        value = namespace[name] = find(name)
        return value

    def __dir__() -> list[str]:
        return sorted({*namespace, *__getattr__("__all__")})

    namespace.update(__getattr__=__getattr__, __dir__=__dir__)
