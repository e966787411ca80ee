"""The three kinds of store on one database, with the same connections."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from jazzmine._sync.factory import new_long_term_memory, new_message_store, new_working_memory
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine._sync.working_memory.store import WorkingMemoryStore
from jazzmine._compat.concurrency import SyncAffinity as Affinity
from jazzmine.config import BackendConfig, PostgresMemoryConfig, SQLiteMemoryConfig, shared_config
from jazzmine.search.vectors import Embed


class Stores(NamedTuple):
    """The stores of an agent.

    Attributes:
        messages: its message store.
        working_memory: its working memory.
        long_term_memory: its long-term memory.
    """

    messages: MessageStore
    working_memory: WorkingMemoryStore
    long_term_memory: LongTermMemoryStore


@contextmanager
def open_stores(
    config: Mapping[str, object] | str | os.PathLike[str], *, embed: Embed | None = None
) -> Iterator[Stores]:
    """Open a message store, a working memory and a long-term memory in one database for a block.

    They share one pool of connections to PostgreSQL, or the connections to an SQLite database. In
    memory (`memory:`) each is a store of its own.

    Args:
        config: a URL, a path or a mapping with the options of `WorkingMemoryStore.initialize`;
            the options of the other stores are among them.
        embed: returns a vector for each of some texts, for `search_items`.

    Raises:
        ConfigurationError: the configuration has an unknown key or a wrong value, or its back end
            lacks one of the three kinds of store.
        ImportError: the back end's driver is not installed.
        StoreUnavailableError: the server cannot be reached.
        OSError: the file cannot be read.
    """
    checked = shared_config(config)
    made = _new_stores(checked, embed)

    def after_fork() -> None:
        others = _new_stores(checked, embed)
        made.messages._become(others.messages)
        made.working_memory._become(others.working_memory)
        made.long_term_memory._become(others.long_term_memory)
        for store in made:
            store._open()

    # In a forked process the first call of any store makes all three anew, once.
    affinity = Affinity(after_fork)
    for store in made:
        store._affinity = affinity
    with (
        made.messages._initialized() as messages,
        made.working_memory._initialized() as working_memory,
        made.long_term_memory._initialized() as long_term_memory,
    ):
        yield Stores(messages, working_memory, long_term_memory)


def _new_stores(config: BackendConfig, embed: Embed | None) -> Stores:
    client: dict[str, Any] = {}
    if isinstance(config, PostgresMemoryConfig):
        from jazzmine._sync.clients.postgres import new_client
        from jazzmine.backends.postgres import schema

        components = (schema.MESSAGE_TABLES, schema.MEMORY_TABLES, schema.ITEM_TABLES)
        client["client"] = new_client(config, *components)
    elif isinstance(config, SQLiteMemoryConfig):
        from jazzmine._sync.clients.sqlite import file_client
        from jazzmine._sync.working_memory.sqlite import MEMORY_TABLES
        from jazzmine.backends.sqlite.items import ITEM_TABLES
        from jazzmine.backends.sqlite.rows import MESSAGE_TABLES

        client["client"] = file_client(config, MESSAGE_TABLES, MEMORY_TABLES, ITEM_TABLES)
    return Stores(
        new_message_store(config, **client),
        new_working_memory(config, **client),
        new_long_term_memory(config, embed, **client),
    )
