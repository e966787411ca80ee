"""A user of Redis with just the rights that the documentation names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.servers.redis import Cluster, Server, running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "backends" / "redis.md"


def documented() -> list[str]:
    """The rules in the documented command that makes the user."""
    [command] = re.findall(r"ACL SETUSER agent on '>secret' (.+)", PAGE.read_text())
    return str(command).split()


@pytest.fixture(params=["standalone", "cluster"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    servers = [running(Server)] if request.param == "standalone" else running(Cluster).primaries
    for server in servers:
        server.client.flushdb()
        server.client.script_flush()
        server.client.execute_command("ACL", "SETUSER", "agent", "on", ">secret", *documented())
    yield servers[0].url.replace("redis://", "redis://agent:secret@")
    for server in servers:
        server.client.execute_command("ACL", "DELUSER", "agent")
        server.client.flushdb()


def test_every_call_works_with_the_documented_rights(url: str) -> None:
    with WorkingMemoryStore.initialize(url) as store:
        store.ping()
        for name in ("c", "d", "e"):
            store.get_or_create(name, "ann", "agent")
            store.end_turn(name, "Hello", "greet")
        with store.locked("c") as memory:
            memory.end_turn("Bye", "leave")
        read = store.get("c")
        assert read is not None
        store.save(read)
        assert store.delete("d") is True
        assert store.get("d") is None
        assert store.active_count() == 2
        assert store.erase_user("ann") == 2


def test_keys_of_others_are_out_of_reach(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        for command in (("GET", "theirs"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("KEYS", "*")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)
