"""A call whose reply was lost has the result of one without faults; round trips are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from jazzmine.core.working_memory import TurnCache, WorkingMemory
from jazzmine.errors import StaleWorkingMemoryError
from tests.backends import memory_tables, redis_apis
from tests.backends.redis_topologies import TOPOLOGIES, Topology, topology
from tests.servers import postgres
from tests.servers.proxy import Proxy

Call = Callable[[Any, WorkingMemory], Any]  # with what was read before
CID = "a {strange} conversation: 100 %"
NEW = "one more"


def turn_in_a_block(store: Any, read: WorkingMemory) -> None:
    with store.locked(CID) as memory:
        memory.begin_turn(TurnCache(1, intent="ask"))
        memory.end_turn("Hello", "greet")


def greet(memory: WorkingMemory) -> None:
    memory.end_turn("Hello", "greet")


def stale_save(store: Any, read: WorkingMemory) -> None:
    read.version_token = "of another save"
    with pytest.raises(StaleWorkingMemoryError, match="revision"):
        store.save(read)


CALLS: dict[str, Call] = {
    "get": lambda store, read: store.get(CID),
    "get of nothing": lambda store, read: store.get(NEW),
    "get_or_create": lambda store, read: store.get_or_create(CID, "user", "agent"),
    "get_or_create of nothing": lambda store, read: store.get_or_create(NEW, "user", "agent"),
    "begin_turn": lambda store, read: store.begin_turn(CID, TurnCache(1, intent="ask")),
    "update": lambda store, read: store.update(CID, greet),
    "a transition that changes nothing": lambda store, read: store.confirm_action(CID),
    "locked": turn_in_a_block,
    "save": lambda store, read: store.save(read),
    "a save that is refused": stale_save,
    "delete": lambda store, read: store.delete(CID),
    "active_count": lambda store, read: store.active_count(),
}
ROUND_TRIPS = {
    "get": 1,
    "get of nothing": 1,
    "get_or_create": 1,
    "get_or_create of nothing": 2,
    "begin_turn": 1,
    "update": 1,
    "a transition that changes nothing": 1,  # what is remembered may be old
    "locked": 2,
    "save": 1,
    "a save that is refused": 1,
    "delete": 1,
    "active_count": 1,
}


class PostgresServer(Topology):
    """PostgreSQL, as a deployment with one server."""

    def locked(self) -> list[Any]:
        return [lock for rows in self.primaries for lock in rows.locked()]


@contextmanager
def postgres_server(number: int) -> Iterator[PostgresServer]:
    address = postgres.dsn()
    with (
        postgres.empty_schema() as schema,
        Proxy(postgres.port_of(address)) as proxy,
        ExitStack() as stack,
    ):
        rows = memory_tables.PostgresRows(schema)
        through = {**rows.config, "dsn": postgres.changed(address, port=proxy.port)}

        def open_store(**options: Any) -> Any:
            one = {"pool_min": 1, "pool_max": 1}
            return stack.enter_context(memory_tables.APIS[number](through, **one, **options))

        def open_beside() -> Any:
            return stack.enter_context(memory_tables.open_sync(rows.config))

        yield PostgresServer(open_store, open_beside, [proxy], [rows])


@pytest.fixture(params=[0, 1], ids=["async", "sync"])
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=[*TOPOLOGIES, "postgres"])
def servers(request: pytest.FixtureRequest, api: int) -> Iterator[Topology]:
    if request.param == "postgres":
        opening: Any = postgres_server(api)
    else:
        opening = topology(request.param, redis_apis.APIS[api])
    with opening as opened:
        yield opened


@pytest.fixture
def store(servers: Topology) -> Any:
    store = servers.open(timeout=4)
    # The servers learn all scripts and statements, and the store has its connections.
    for conversation_id in (CID, NEW):
        for _ in range(2):
            store.get_or_create(conversation_id, "user", "agent")
            store.confirm_action(conversation_id)
            with store.locked(conversation_id):
                pass
            store.set_data(conversation_id)
            store.delete(conversation_id)
    for primary in servers.primaries:
        if isinstance(primary, memory_tables.PostgresRows):
            primary.run("DELETE FROM working_memory")
        else:
            primary.flushdb()
    for _ in range(2):
        store.get_or_create(CID, "user", "agent")
        store.get(CID)
    store.active_count()
    return store


def proxy_of(name: str, servers: Topology) -> Proxy:
    return servers.proxy_of(NEW if name.endswith("of nothing") else CID)


@pytest.mark.parametrize("name", CALLS)
def test_each_call_needs_a_fixed_number_of_round_trips(
    store: Any, servers: Topology, name: str
) -> None:
    proxy, read = proxy_of(name, servers), store.get(CID)
    before = proxy.round_trips

    CALLS[name](store, read)

    assert proxy.round_trips - before == ROUND_TRIPS[name]


def test_a_write_is_not_repeated_over_a_newer_one(store: Any, servers: Topology) -> None:
    """The reply to a save is lost, and before it is repeated another store saves as well."""
    other = servers.open_beside()
    proxy = proxy_of("end_turn", servers)
    proxy.on_loss = lambda: other.end_turn(CID, "theirs", "newer")
    proxy.lose_reply(1)

    mine = store.end_turn(CID, "mine", "older")

    stored = other.get(CID)
    assert mine.last_agent_response == "mine"
    assert (stored.last_agent_response, stored.revision) == ("theirs", mine.revision + 1)
