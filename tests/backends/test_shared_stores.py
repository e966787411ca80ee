"""Stores that are opened together: how many connections they have, forks, failures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jazzmine import JazzmineError, MemoryItem
from jazzmine.sync import Stores, open_stores
from tests.behaviour.samples import conversation
from tests.servers import postgres


def write(stores: Stores, name: str) -> None:
    stores.messages.store_conversation(conversation(name))
    stores.working_memory.get_or_create(name, "u1", "a1")
    stores.long_term_memory.put(MemoryItem(namespace=("n",), key=name, value={}))


def is_there(stores: Stores, name: str) -> bool:
    return (
        stores.messages.get_conversation_by_id(name) is not None
        and stores.working_memory.get(name) is not None
        and stores.long_term_memory.get(("n",), name) is not None
    )


def test_they_have_one_pool_in_postgres() -> None:
    program = uuid4().hex
    address = postgres.changed(postgres.dsn(), application_name=program)
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    with (
        postgres.empty_schema() as schema,
        postgres.connect(postgres.dsn()) as beside,
    ):
        config: Mapping[str, object] = {
            "storage": "postgres",
            "dsn": address,
            "schema": schema,
            "pool_min": 1,
            "pool_max": 1,
        }
        with open_stores(config) as stores:
            write(stores, "c1")
            assert is_there(stores, "c1")
            assert beside.execute(sessions, [program]).fetchone() == (1,)


def test_they_have_one_writer_in_sqlite(tmp_path: Path) -> None:
    with open_stores(f"sqlite:{tmp_path / 'agent.db'}") as stores:
        write(stores, "c1")
        assert is_there(stores, "c1")
        backends: list[Any] = [store.backend for store in stores]
        assert len({backend.client for backend in backends}) == 1


def test_a_store_in_memory_begins_anew_in_a_forked_process() -> None:
    with open_stores("memory:") as stores:
        write(stores, "before")
        child = os.fork()
        if not child:
            done = False
            try:
                write(stores, "child")
                done = is_there(stores, "child") and not is_there(stores, "before")
            finally:
                os._exit(not done)
        assert os.waitpid(child, 0)[1] == 0
        assert is_there(stores, "before")
        assert not is_there(stores, "child")


def test_a_failure_to_open_leaves_no_connection_open(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    path.write_bytes(b"something else" * 1000)
    with pytest.raises((JazzmineError, OSError, ValueError)), open_stores(f"sqlite:{path}"):
        pass
    left = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.lexists(f"/proc/self/fd/{fd}")
    ]
    assert str(path) not in left
