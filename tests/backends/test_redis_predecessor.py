"""What jazzmine 0.1.42 itself wrote to Redis is read, taken over and erased."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest
from redis.crc import key_slot

from jazzmine.errors import NotFoundError
from jazzmine.records.working_memory import WorkingMemory
from tests.backends.redis_apis import open_sync
from tests.backends.redis_topologies import Topology, topology
from tests.servers import predecessor
from tests.servers.redis import Server

ROOT = Path(__file__).resolve().parents[2]

# In a cluster the keys of some have another slot, and another server, than ours.
NAMES = ["c", "d", "né {strange} 100 %", "{c}d", "e"]


@pytest.fixture(params=["standalone", "cluster"])
def servers(request: pytest.FixtureRequest) -> Iterator[Topology]:
    with topology(request.param, open_sync) as opened:
        yield opened


@dataclass
class Old:
    """What 0.1.42 wrote: the keys and values, and the states as it reads them itself."""

    stored: dict[bytes, bytes]
    states: dict[str, WorkingMemory]


@pytest.fixture(scope="module")
def old() -> Old:
    predecessor.make(pydantic.VERSION)
    python = predecessor.PYTHON
    command = [str(python), "-m", "tests.backends.predecessor_memory"]
    with Server() as server:
        command += [str(predecessor.SOURCE), server.url, json.dumps(NAMES)]
        said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        stored = {key: server.client.get(key) for key in server.client.keys("*")}
    assert sorted(stored) == sorted(f"wm:{name}".encode() for name in NAMES)
    found = json.loads(said.stdout)
    return Old(stored, {name: WorkingMemory.from_dict(found[name]) for name in NAMES})


def primary_of(servers: Topology, key: bytes) -> Any:
    """A client of the primary that has the slot of a key."""
    return servers.primaries[key_slot(key) * len(servers.primaries) // 16384]


@pytest.fixture
def store(servers: Topology, old: Old) -> Any:
    for key, value in old.stored.items():
        primary_of(servers, key).set(key, value, px=3_600_000)
    return servers.open(timeout=5)


@pytest.mark.parametrize("name", NAMES)
def test_what_0_1_stored_is_read_and_left_where_it_is(
    store: Any, servers: Topology, old: Old, name: str
) -> None:
    before = sorted(servers.keys("*"))

    assert store.get(name) == old.states[name]
    assert sorted(servers.keys("*")) == before


@pytest.mark.parametrize("name", NAMES)
def test_the_first_update_takes_it_over(store: Any, servers: Topology, old: Old, name: str) -> None:
    updated = store.end_turn(name, "Bye", "leave")

    assert (updated.turn_number, updated.revision) == (1, 1)
    assert updated.active_flow == old.states[name].active_flow
    assert store.get(name) == updated
    assert f"wm:{name}".encode() not in servers.keys("wm:*")
    assert store.end_turn(name, "Bye", "leave").revision == 2


def test_a_block_takes_it_over_under_its_lock(store: Any, servers: Topology) -> None:
    with store.locked("c") as memory:
        assert servers.keys("wm_lock:{c}")
        memory.end_turn("Bye", "leave")

    assert store.get("c").last_agent_response == "Bye"
    assert b"wm:c" not in servers.keys("wm:*")


def test_get_or_create_returns_it(store: Any, old: Old) -> None:
    assert store.get_or_create("c", "another", "agent") == old.states["c"]


def test_of_two_stores_that_take_it_over_none_loses_its_update(
    store: Any, servers: Topology
) -> None:
    other = servers.open_beside()
    assert store.get("c") == other.get("c")

    store.end_turn("c", "Hello", "greet")

    assert other.end_turn("c", "Bye", "leave").revision == 2


def test_one_that_another_store_has_taken_over_and_deleted_is_not_made_anew(
    store: Any, servers: Topology
) -> None:
    other = servers.open_beside()
    assert store.get("c") == other.get("c")
    store.end_turn("c", "Hello", "greet")
    assert store.delete("c") is True

    with pytest.raises(NotFoundError):
        other.end_turn("c", "Bye", "leave")

    assert store.get("c") is None


def test_it_is_deleted(store: Any, servers: Topology) -> None:
    assert store.delete("c") is True
    assert store.get("c") is None
    assert b"wm:c" not in servers.keys("wm:*")
    with pytest.raises(NotFoundError):
        store.end_turn("c", "Hello", "greet")
    assert store.get_or_create("c", "user", "agent").revision == 1


@pytest.mark.parametrize("name", NAMES)
def test_it_is_erased_with_its_user(store: Any, servers: Topology, name: str) -> None:
    store.get_or_create("another", f"user of {name}", "agent")

    assert store.erase_user(f"user of {name}") == 2

    assert store.get(name) is None
    assert f"wm:{name}".encode() not in servers.keys("wm:*")
    assert len(servers.keys("wm:*")) == len(NAMES) - 1


def test_one_that_was_left_behind_by_a_process_that_died_is_deleted_as_well(
    store: Any, servers: Topology, old: Old
) -> None:
    """It had taken the state over, and not yet deleted the old key."""
    store.end_turn("c", "Hello", "greet")
    primary_of(servers, b"wm:c").set("wm:c", old.stored[b"wm:c"], px=3_600_000)

    assert store.get("c").last_agent_response == "Hello"
    assert store.erase_user("user of c") >= 1
    assert store.get("c") is None
    assert servers.keys("wm:c") == []


def test_one_that_cannot_be_read_is_moved_aside_and_erased(
    store: Any, servers: Topology, caplog: pytest.LogCaptureFixture
) -> None:
    primary_of(servers, b"wm:c").set("wm:c", '{"user_id": "user of c", "conversation_id": 7}')

    with caplog.at_level(logging.ERROR):
        assert store.get("c") is None

    assert "wm_corrupt:{c}" in caplog.text
    assert servers.keys("wm_corrupt:*") == [b"wm_corrupt:{c}"]
    assert servers.keys("wm:c") == []
    assert store.get_or_create("c", "user", "agent").revision == 1
    assert store.erase_user("user of c") == 1
    assert servers.keys("wm_corrupt:*") == []


def test_keys_of_other_programs_are_left_alone(store: Any, servers: Topology) -> None:
    for key, value in ((b"wm:theirs", "no JSON"), (b"wm:\xff", "theirs"), (b"wm:[]", "[]")):
        primary_of(servers, key).set(key, value)
    primary_of(servers, b"wm:list").rpush("wm:list", "theirs")

    assert store.erase_user("theirs") == 0
    assert store.get("list") is None
    assert len(servers.keys("wm:*")) == len(NAMES) + 4
