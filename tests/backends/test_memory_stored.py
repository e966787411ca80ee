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

from jazzmine.errors import NewerFormatError, StaleWorkingMemoryError
from jazzmine.records.memory_json import to_json
from jazzmine.records.working_memory import WorkingMemory
from tests.backends.memory_tables import Locks, open_sync
from tests.behaviour.memory_samples import UPDATES, Update, busy
from tests.servers.redis import eventually

UNREADABLE = [b"", b"not JSON", b'{"conversation_id": 7}', b"\xff\x00", b"[]", b"null"]


def test_the_state_is_json_with_its_user_and_its_format_beside_it(
    memory_store: Any, locks: Locks
) -> None:
    saved = memory_store.get_or_create("c", "né {user}", "agent")

    data = locks.data()
    assert data is not None
    assert WorkingMemory.from_dict(json.loads(data)) == saved
    assert locks.beside() == ("né {user}", 1)


def test_every_save_renews_the_time_to_live(open_memory: Callable[..., Any], locks: Locks) -> None:
    store = open_memory(ttl_seconds=100)
    store.get_or_create("c", "user", "agent")
    locks.expire(50)

    store.end_turn("c", "Hello", "greet")

    assert 90 < locks.lasts() <= 100


def test_an_expired_state_is_none(memory_store: Any, locks: Locks) -> None:
    memory_store.get_or_create("c", "user", "agent")
    memory_store.end_turn("c", "Hello", "greet")
    locks.expire(-1)

    assert memory_store.get("c") is None
    assert memory_store.active_count() == 0
    assert memory_store.delete("c") is False
    assert memory_store.get_or_create("c", "another", "agent").user_id == "another"


@pytest.mark.parametrize("memory_backend", ["postgres", "sqlite"], indirect=True)
def test_a_save_sweeps_what_has_expired(
    open_memory: Callable[..., Any], locks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jazzmine._sync.working_memory.updates._SWEEPING", 0.0)
    store = open_memory()
    for number in range(20):
        store.get_or_create(f"old {number}", "user", "agent")
    locks.elapse(3 * 3600)

    store.get_or_create("c", "user", "agent")
    store.end_turn("c", "Hello", "greet")

    eventually(lambda: locks.run("SELECT conversation_id FROM working_memory") == [("c",)])


@pytest.mark.parametrize("data", UNREADABLE)
def test_an_unreadable_state_is_logged_and_the_conversation_starts_anew(
    memory_store: Any, locks: Locks, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    memory_store.get_or_create("c", "user", "agent")
    locks.put(data)

    with caplog.at_level(logging.ERROR):
        read = memory_store.get("c")
        left = locks.data()
        new = memory_store.get_or_create("c", "another", "agent")

    assert read is None
    assert left == data
    assert (new.user_id, new.revision) == ("another", 1)
    assert memory_store.end_turn("c", "Hello", "greet").revision == 2
    assert "'c' cannot be read" in caplog.text
    assert data.decode(errors="replace") not in caplog.text or len(data) < 5


def test_an_unreadable_state_of_a_user_is_erased(memory_store: Any, locks: Locks) -> None:
    memory_store.get_or_create("c", "user", "agent")
    locks.put(b"first")

    assert memory_store.erase_user("user") == 1
    assert locks.data() is None


@pytest.mark.parametrize("data", [b"not JSON", b'{"format": 2}'])
def test_a_state_that_cannot_be_read_is_deleted(
    memory_store: Any, locks: Locks, data: bytes
) -> None:
    memory_store.get_or_create("c", "user", "agent")
    locks.put(data)

    assert memory_store.scoped(user_id="user").delete("c") is True
    assert locks.data() is None


def test_a_state_does_not_expire_while_a_block_runs(
    open_memory: Callable[..., Any], locks: Locks
) -> None:
    store = open_memory(ttl_seconds=0.5, lease_seconds=0.3)
    store.get_or_create("c", "user", "agent")

    with store.locked("c") as memory:
        time.sleep(1.2)
        memory.end_turn("Hello", "greet")

    assert store.get("c").last_agent_response == "Hello"


def test_a_process_keeps_few_large_states_in_its_memory(memory_store: Any) -> None:
    draft = "x" * 1_000_000
    for number in range(30):
        memory_store.get_or_create(f"c{number}", "user", "agent")
        memory_store.set_data(f"c{number}", draft=draft)

    gc.collect()
    memories = [each for each in gc.get_objects() if isinstance(each, WorkingMemory)]
    assert 1 <= sum(memory.data.get("draft") == draft for memory in memories) <= 10
    assert memory_store.end_turn("c0", "Hello", "greet").data == {"draft": draft}


def test_a_copy_of_a_revision_that_came_twice_is_stale(
    open_memory: Callable[..., Any], locks: Locks
) -> None:
    """A failover, or a backup that is brought in, makes another state of the same revision."""
    store, other = open_memory(), open_memory()
    store.get_or_create("c", "user", "agent")
    backup = locks.data()
    assert backup is not None
    lost = store.end_turn("c", "lost", "greet")
    locks.put(backup)
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


# A rolling upgrade: working memories that a newer version has written


def put_newer(store: Any, locks: Locks, **changes: Any) -> bytes:
    """Store what a newer version would."""
    store.get_or_create("c", "user", "agent")
    memory = busy("c")
    memory.revision = 1
    data = json.dumps({**json.loads(to_json(memory)), **changes}).encode()
    locks.put(data)
    return data


def stored(locks: Locks) -> Any:
    return json.loads(locks.data() or b"null")


def test_an_update_keeps_unknown_fields(memory_store: Any, locks: Locks) -> None:
    put_newer(memory_store, locks, mood={"of": ["the user"]})

    updated = memory_store.end_turn("c", "Hello", "greet")

    kept = stored(locks)
    assert kept["mood"] == {"of": ["the user"]}
    assert kept["last_agent_response"] == updated.last_agent_response == "Hello"


@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_a_higher_format_is_refused_and_left_where_it_is(
    memory_store: Any, locks: Locks, update: Update, caplog: pytest.LogCaptureFixture
) -> None:
    blob = put_newer(memory_store, locks, format=2)

    with caplog.at_level(logging.ERROR), pytest.raises(NewerFormatError, match="format 2"):
        update.on(memory_store, "c")

    assert locks.data() == blob
    assert locks.holder() is None
    assert not caplog.records
