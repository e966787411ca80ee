"""A Redis server that refuses commands: each call raises our own error, which says why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from jazzmine.errors import LockTimeoutError, StoreUnavailableError
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.apis import APIS, Api
from tests.servers.redis import Cluster, Server, eventually, free_port, running

TIMEOUTS = (TimeoutError, redis.TimeoutError)
USER = "ACL SETUSER agent on >secret ~wm* +@all"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("redis")
    with Server("--dir", str(folder)) as started:
        folder.rmdir()  # it can write no snapshots
        yield started


@contextmanager
def full(server: Server) -> Iterator[None]:
    """A server without memory for more, which deletes nothing to make room."""
    server.client.config_set("maxmemory-policy", "noeviction")
    server.client.config_set("maxmemory", 1)
    yield
    server.client.config_set("maxmemory", 0)


@contextmanager
def without_snapshots(server: Server) -> Iterator[None]:
    """A server that should write snapshots, and has failed to."""
    server.client.config_set("save", "3600 1")
    server.client.bgsave()
    eventually(lambda: server.client.info()["rdb_last_bgsave_status"] == "err")
    yield
    server.client.config_set("save", "")


@contextmanager
def replica(server: Server) -> Iterator[None]:
    """A server that has become the replica of another one."""
    server.client.replicaof("127.0.0.1", free_port())
    yield
    server.client.replicaof("no", "one")


@contextmanager
def foreign_keys(server: Server) -> Iterator[None]:
    """A server on which another program has written keys with names of ours."""
    names = [name for name in server.client.keys("wm*") if name != b"wm:{c}"]
    names += [b"wm_lock:{c}"]
    server.client.delete(*names)
    for name in names:
        server.client.rpush(name, "theirs")
    yield
    server.client.delete(*names)


@contextmanager
def without(server: Server, right: str) -> Iterator[None]:
    """A server whose user lacks a right."""
    server.client.execute_command("ACL", "SETUSER", "agent", f"-{right}")
    yield
    server.client.execute_command(*USER.split())


REFUSALS: dict[str, tuple[Callable[[Server], Any], str]] = {
    "full": (full, "maxmemory"),
    "without_snapshots": (without_snapshots, "MISCONF"),
    "replica": (replica, "read only replica"),
    "foreign_keys": (foreign_keys, "WRONGTYPE"),
    **{
        f"without_{right}": (partial(without, right=right), "permission|can't")
        for right in ("evalsha", "hmget", "hget", "hset", "get", "set", "scan", "ping", "del")
    },
}


async def end_block(store: Any) -> None:
    async with store.locked("c") as memory:
        memory.end_turn("Bye", "leave")


CALLS: list[Callable[[Any], Any]] = [
    lambda store: store.get("c"),
    lambda store: store.get_or_create("c", "user", "agent"),
    lambda store: store.get_or_create("new", "user", "agent"),
    lambda store: store.end_turn("c", "Hello", "greet"),
    end_block,
    lambda store: store.active_count(),
    lambda store: store.ping(),
    lambda store: store.erase_user("user"),
    lambda store: store.delete("c"),
]


@pytest.mark.parametrize("api", APIS, ids=str)
@pytest.mark.parametrize("name", REFUSALS)
async def test_what_the_server_refuses_is_our_error(api: Api, server: Server, name: str) -> None:
    server.client.flushdb()
    server.client.execute_command(*USER.split())
    refused, reason = REFUSALS[name]
    url = server.url.replace("//", "//agent:secret@")
    config = {"storage": "redis", "url": url, "timeout": 0.5}
    async with await api.WorkingMemoryStore.initialize(config) as store:
        await store.get_or_create("c", "user", "agent")
        errors = []
        with refused(server):
            for call in CALLS:
                try:
                    await call(store)
                except StoreUnavailableError as error:
                    errors.append(error)
                except LockTimeoutError:
                    assert name == "without_del"  # a lock that could not be released
        assert errors
        for raised in errors:
            assert f"127.0.0.1:{server.port}" in str(raised)
            assert raised.__cause__ is not None
            assert not str(raised).endswith(": ")
        # A busy machine may end a call before the server has refused it.
        first = next(one for one in errors if not isinstance(one.__cause__, TIMEOUTS))
        assert re.search(reason, str(first))

        server.client.delete("wm_lock:{c}")  # the lock that could not be released would expire
        await store.get_or_create("c", "user", "agent")
        assert (await store.end_turn("c", "Hello", "greet")).last_agent_response == "Hello"


@pytest.mark.parametrize("api", APIS, ids=str)
async def test_a_user_is_erased_although_the_memory_is_full(api: Api, server: Server) -> None:
    server.client.flushdb()
    async with await api.WorkingMemoryStore.initialize(f"{server.url}?timeout=5") as store:
        for name in ("c", "d"):
            await store.get_or_create(name, "user", "agent")
        with full(server):
            assert await store.delete("c") is True
            assert await store.erase_user("user") == 1
        assert server.client.keys("wm:*") == []


# A user with the documented rights


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
