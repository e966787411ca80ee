"""What is stored: expiry, sweeping, unreadable states, and what earlier versions stored."""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine.errors import StaleWorkingMemoryError
from jazzmine.records.working_memory import WorkingMemory
from tests.backends.memory_tables import Locks, open_sync
from tests.servers.redis import eventually

UNREADABLE = [b"", b"not JSON", b'{"conversation_id": 7}', b"\xff\x00", b"[]", b"null"]


@pytest.fixture
def store(open_store: Callable[..., Any]) -> Any:
    return open_store()


def test_the_state_is_json_with_its_user_and_its_format_beside_it(store: Any, rows: Locks) -> None:
    saved = store.get_or_create("c", "né {user}", "agent")

    data = rows.data()
    assert data is not None
    assert WorkingMemory.from_dict(json.loads(data)) == saved
    assert rows.beside() == ("né {user}", 1)


def test_every_save_renews_the_time_to_live(open_store: Callable[..., Any], rows: Locks) -> None:
    store = open_store(ttl_seconds=100)
    store.get_or_create("c", "user", "agent")
    rows.expire(50)

    store.end_turn("c", "Hello", "greet")

    assert 90 < rows.lasts() <= 100


def test_an_expired_state_is_none(store: Any, rows: Locks) -> None:
    store.get_or_create("c", "user", "agent")
    store.end_turn("c", "Hello", "greet")
    rows.expire(-1)

    assert store.get("c") is None
    assert store.active_count() == 0
    assert store.delete("c") is False
    assert store.get_or_create("c", "another", "agent").user_id == "another"


@pytest.mark.parametrize("opened", ["postgres", "sqlite"], indirect=True)
def test_a_save_sweeps_what_has_expired(
    open_store: Callable[..., Any], rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jazzmine._sync.working_memory.updates._SWEEPING", 0.0)
    store = open_store()
    for number in range(20):
        store.get_or_create(f"old {number}", "user", "agent")
    rows.elapse(3 * 3600)

    store.get_or_create("c", "user", "agent")
    store.end_turn("c", "Hello", "greet")

    eventually(lambda: rows.run("SELECT conversation_id FROM working_memory") == [("c",)])


@pytest.mark.parametrize("data", UNREADABLE)
def test_an_unreadable_state_is_logged_and_the_conversation_starts_anew(
    store: Any, rows: Locks, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.get_or_create("c", "user", "agent")
    rows.put(data)

    with caplog.at_level(logging.ERROR):
        read = store.get("c")
        left = rows.data()
        new = store.get_or_create("c", "another", "agent")

    assert read is None
    assert left == data
    assert (new.user_id, new.revision) == ("another", 1)
    assert store.end_turn("c", "Hello", "greet").revision == 2
    assert "'c' cannot be read" in caplog.text
    assert data.decode(errors="replace") not in caplog.text or len(data) < 5


def test_an_unreadable_state_of_a_user_is_erased(store: Any, rows: Locks) -> None:
    store.get_or_create("c", "user", "agent")
    rows.put(b"first")

    assert store.erase_user("user") == 1
    assert rows.data() is None


def test_a_state_does_not_expire_while_a_block_runs(
    open_store: Callable[..., Any], rows: Locks
) -> None:
    store = open_store(ttl_seconds=0.5, lease_seconds=0.3)
    store.get_or_create("c", "user", "agent")

    with store.locked("c") as memory:
        time.sleep(1.2)
        memory.end_turn("Hello", "greet")

    assert store.get("c").last_agent_response == "Hello"


def test_a_process_keeps_few_large_states_in_its_memory(store: Any) -> None:
    draft = "x" * 1_000_000
    for number in range(30):
        store.get_or_create(f"c{number}", "user", "agent")
        store.set_data(f"c{number}", draft=draft)

    gc.collect()
    memories = [each for each in gc.get_objects() if isinstance(each, WorkingMemory)]
    assert 1 <= sum(memory.data.get("draft") == draft for memory in memories) <= 10
    assert store.end_turn("c0", "Hello", "greet").data == {"draft": draft}


def test_a_copy_of_a_revision_that_came_twice_is_stale(
    open_store: Callable[..., Any], rows: Locks
) -> None:
    """A failover, or a backup that is brought in, makes another state of the same revision."""
    store, other = open_store(), open_store()
    store.get_or_create("c", "user", "agent")
    backup = rows.data()
    assert backup is not None
    lost = store.end_turn("c", "lost", "greet")
    rows.put(backup)
    current = other.end_turn("c", "counts", "greet")
    assert current.revision == lost.revision

    with pytest.raises(StaleWorkingMemoryError):
        store.save(lost)

    assert other.get("c").last_agent_response == "counts"


def test_an_erasure_leaves_nothing_of_the_user_in_the_files(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with open_sync({"storage": "sqlite", "path": str(path)}) as store:
        for number in range(20):
            store.get_or_create(f"c{number}", "ada-lovelace", "agent")
            store.end_turn(f"c{number}", "a secret reply", "greet")
        store.get_or_create("other", "bob", "agent")

        assert store.erase_user("ada-lovelace") == 20

        raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"ada-lovelace" not in raw
        assert b"a secret reply" not in raw
        assert store.get("other") is not None
