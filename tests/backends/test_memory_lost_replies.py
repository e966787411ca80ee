"""A call whose reply was lost has the result of one without faults; round trips are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from jazzmine.core.working_memory import TurnCache, WorkingMemory
from jazzmine.errors import StaleWorkingMemoryError
from tests.backends.memory_tables import open_sync
from tests.behaviour.apis import APIS, Api
from tests.faults.networks import NETWORKS, Network

Call = Callable[[Any, WorkingMemory], Awaitable[object]]  # with what was read before
CID = "a {strange} conversation: 100 %"
NEW = "one more"


async def turn_in_a_block(store: Any, read: WorkingMemory) -> None:
    async with store.locked(CID) as memory:
        memory.begin_turn(TurnCache(1, intent="ask"))
        memory.end_turn("Hello", "greet")


def greet(memory: WorkingMemory) -> None:
    memory.end_turn("Hello", "greet")


async def stale_save(store: Any, read: WorkingMemory) -> None:
    read.version_token = "of another save"
    with pytest.raises(StaleWorkingMemoryError, match="revision"):
        await store.save(read)


# Each with its round trips.
CALLS: dict[str, tuple[Call, int]] = {
    "get": (lambda store, read: store.get(CID), 1),
    "get of nothing": (lambda store, read: store.get(NEW), 1),
    "get_or_create": (lambda store, read: store.get_or_create(CID, "user", "agent"), 1),
    "get_or_create of nothing": (lambda store, read: store.get_or_create(NEW, "user", "agent"), 2),
    "begin_turn": (lambda store, read: store.begin_turn(CID, TurnCache(1, intent="ask")), 1),
    "update": (lambda store, read: store.update(CID, greet), 1),
    # What is remembered may be old.
    "a transition that changes nothing": (lambda store, read: store.confirm_action(CID), 1),
    "locked": (turn_in_a_block, 2),
    "save": (lambda store, read: store.save(read), 1),
    "a save that is refused": (stale_save, 1),
    "active_count": (lambda store, read: store.active_count(), 1),
    "delete": (lambda store, read: store.delete(CID), 1),
}


@pytest.fixture(params=APIS, ids=str)
def api(request: pytest.FixtureRequest) -> Api:
    chosen: Api = request.param
    return chosen


@pytest.fixture(params=["redis", "postgres_memory"])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    with NETWORKS[request.param]() as opened:
        if "dsn" in opened.through:  # another connection would prepare the statements once more
            opened.through["pool_max"] = 1
        yield opened


@pytest.fixture
async def store(api: Api, network: Network) -> AsyncIterator[Any]:
    async with await api.WorkingMemoryStore.initialize(network.through) as opened:
        # The server learns all scripts and statements.
        for conversation_id in (CID, CID, NEW, NEW):
            await opened.get_or_create(conversation_id, "user", "agent")
            await opened.confirm_action(conversation_id)
            async with opened.locked(conversation_id):
                pass
            await opened.set_data(conversation_id)
            await opened.delete(conversation_id)
        for _ in range(2):
            await opened.get_or_create(CID, "user", "agent")
            await opened.active_count()
        yield opened


async def test_each_call_needs_a_fixed_number_of_round_trips(store: Any, network: Network) -> None:
    trips = {}
    for name, (call, _) in CALLS.items():
        read = await store.get(CID)
        before = network.proxy.round_trips
        await call(store, read)
        trips[name] = network.proxy.round_trips - before

    assert trips == {name: expected for name, (_, expected) in CALLS.items()}


async def test_a_write_is_not_repeated_over_a_newer_one(store: Any, network: Network) -> None:
    """The reply to a save is lost, and before it is repeated another store saves as well."""
    with open_sync(network.beside) as other:
        network.proxy.on_loss = lambda: other.end_turn(CID, "theirs", "newer")
        network.proxy.lose_reply(1)

        mine = await store.end_turn(CID, "mine", "older")

        stored = other.get(CID)
        assert mine.last_agent_response == "mine"
        assert (stored.last_agent_response, stored.revision) == ("theirs", mine.revision + 1)
