"""Stores behind a faulty network: their methods, and a store that reads the true data."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, ClassVar

from jazzmine import Erasure, LockTimeoutError, StoreUnavailableError
from jazzmine.core.working_memory import TurnCache, WorkingMemory
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.apis import ASYNC, SYNC, Runner, as_async
from tests.behaviour.calls import CALLS, ITERATION, call
from tests.behaviour.memory_samples import UPDATES, Update, busy, timeless
from tests.behaviour.samples import NOW, conversation, message, trace
from tests.faults.networks import NETWORKS, Network
from tests.faults.sizes import TOLERANCE

Call = Callable[[Any, Any], Any]

APIS = {api.name: api for api in (SYNC, ASYNC)}
WORKS_AGAIN = 5.0
CID, ANOTHER = "c1", "c2"
CREATED_AT = 1700000000.0


def is_unavailable(result: Any) -> bool:
    """Return whether a call failed with an unknown outcome."""
    return isinstance(result, (StoreUnavailableError, LockTimeoutError))


class FaultyStore(ABC):
    """A store behind a faulty network, and another one that reads the stored data.

    Args:
        network: the routes to the server through the proxy and around it.
        runner: makes the calls of the store's API.
        store: the store whose calls go through the proxy.
        beside: another store with the same data, of the sync API.
    """

    methods: ClassVar[dict[str, Call]]

    def __init__(self, network: Network, runner: Runner, store: Any, beside: Any) -> None:
        self.proxy = network.proxy
        self.runner = runner
        self.store = store
        self.beside = beside

    @abstractmethod
    def prepare(self) -> None:
        """Store the few records that exist before every call."""

    @abstractmethod
    def seen(self) -> list[Any]:
        """Return all stored data."""

    @abstractmethod
    def write(self, store: Any) -> Any:
        """Write all kinds of records that the methods write."""

    def call(self, name: str) -> tuple[Any, float]:
        """Make a call, and return its result or its `StoreUnavailableError`, and its duration."""
        started = time.monotonic()
        result: Any
        try:
            result = self.methods[name](self.runner, self.store)
        except (StoreUnavailableError, LockTimeoutError) as error:
            result = error
        return _comparable(result), time.monotonic() - started

    def clean(self, name: str) -> Any:
        """Make a call without faults, and return its result."""
        return _comparable(self.methods[name](self.runner, as_async(self.beside)))

    def works_again(self) -> None:
        """Fail unless the same store works again soon, without delaying other stores."""
        until = time.monotonic() + WORKS_AGAIN + TOLERANCE
        self._works(lambda: self.runner.run(self.write(self.store)), until, "works again")
        self._works(
            lambda: self.runner.run(self.write(as_async(self.beside))), until, "lets others write"
        )

    def _works(self, write: Callable[[], Any], until: float, what: str) -> None:
        done = False
        while not done:
            with suppress(StoreUnavailableError, LockTimeoutError):
                write()
                done = True
            assert time.monotonic() < until, f"it took too long until the store {what}"


def _made(make: Callable[[Any], Any]) -> Call:
    return lambda runner, store: runner.run(make(store))


# What the methods of a message store are given for their calls to change something.
GIVEN: dict[str, dict[str, Any]] = {
    "fork_conversation": {"new_conversation": conversation(ANOTHER)},
    "get_or_create_conversation": {"conversation": conversation(ANOTHER)},
    "prune_conversations": {"before": NOW + 1},
    "search_messages": {"query": "text", "limit": 20},
    "store_conversation": {"conversation": conversation(ANOTHER)},
    "store_message": {"message": message("m2")},
    "store_messages": {"messages": [message("m2"), message("m3")]},
    "store_turn": {
        "conversation": conversation(title="new"),
        "messages": [message("m2")],
        "trace": trace("m2"),
    },
    "store_turn_trace": {"trace": trace(detected_intent="new")},
    "update_conversation": {"conversation": conversation(title="new")},
    "update_message": {"message": message(intent="new")},
}


class Messages(FaultyStore):
    """A message store."""

    methods: ClassVar[dict[str, Call]] = {
        **{name: _made(partial(call, name, **GIVEN.get(name, {}))) for name in CALLS},
        ITERATION: lambda runner, store: runner.collect(lambda: store.iter_messages(CID)),
    }

    def prepare(self) -> None:
        """Store a conversation with a message and its trace, with the store itself."""
        for conversation_id in (CID, ANOTHER):
            self.beside.delete_conversation(conversation_id)
        self._works(lambda: self.runner.run(self.write(self.store)), math.inf, "is prepared")

    def seen(self) -> list[Any]:
        """All records."""
        return [
            self.beside.get_conversations_by_user_id("u1"),
            self.beside.get_messages_by_user_id("u1"),
            self.beside.get_turn_traces_by_agent_id("a1"),
        ]

    def write(self, store: Any) -> Any:
        """Store a turn."""
        return store.store_turn(
            conversation=conversation(), messages=[message("m1")], trace=trace("m1")
        )


async def _in_a_block(store: Any) -> None:
    async with store.locked(CID) as memory:
        memory.end_turn("in a block", "intent")


def _transition(update: Update) -> Call:
    return lambda runner, store: runner.run(update.on(store, CID))


class Memories(FaultyStore):
    """A store of working memories."""

    methods: ClassVar[dict[str, Call]] = {
        **{update.name: _transition(update) for update in UPDATES},
        "locked": lambda runner, store: runner.run(_in_a_block(store)),
        "get": lambda runner, store: runner.run(store.get(CID)),
        "get_or_create": lambda runner, store: runner.run(
            store.get_or_create(ANOTHER, "user", "agent")
        ),
        "delete": lambda runner, store: runner.run(store.delete(CID)),
        "active_count": lambda runner, store: runner.run(store.active_count()),
        "erase_user": lambda runner, store: runner.run(store.erase_user(busy(CID).user_id)),
        "save": lambda runner, store: _read_and_save(runner, store),
    }

    def prepare(self) -> None:
        """Store a working memory to which every transition applies."""
        for cid in (CID, ANOTHER):
            self.beside.delete(cid)
        memory = busy(CID)
        memory.created_at = CREATED_AT  # a working memory with another revision is refused
        self.beside.save(memory)
        self._works(lambda: self.runner.run(self.store.get(CID)), math.inf, "is prepared")

    def seen(self) -> list[Any]:
        """All working memories."""
        return [_comparable(self.beside.get(cid)) for cid in (CID, ANOTHER)]

    async def write(self, store: Any) -> None:
        """Change the working memory, which may have been deleted."""
        await store.get_or_create(CID, "user", "agent")
        await store.begin_turn(CID, TurnCache(7))


def _read_and_save(runner: Any, store: Any) -> Any:
    memory = runner.run(store.get(CID))
    memory.end_turn("saved", "intent")
    return runner.run(store.save(memory))


def _comparable(result: Any) -> Any:
    if isinstance(result, Erasure):
        return result.model_copy(update={"erased_at": 0})
    return timeless(result) if isinstance(result, WorkingMemory) else result


KINDS: dict[str, type[FaultyStore]] = {
    "postgres": Messages,
    "mongodb": Messages,
    "redis": Memories,
    "postgres_memory": Memories,
}


def _initialized(initialize: Callable[[], Any]) -> Any:
    """Return a store whose `timeout` may be too short to open it on a busy machine."""
    for _ in range(9):
        with suppress(StoreUnavailableError):
            return initialize()
    return initialize()


@contextmanager
def opened(name: str, api: str, timeout: float) -> Iterator[FaultyStore]:
    """Open a store of an API for a block; `timeout` is that of its calls, in s."""
    kind: Any = APIS[api].WorkingMemoryStore
    sync_store: Any = WorkingMemoryStore
    if KINDS[name] is not Memories:
        kind, sync_store = APIS[api].MessageStore, MessageStore
    with ExitStack() as stack:
        network = stack.enter_context(NETWORKS[name]())
        runner: Any = stack.enter_context(Runner())
        options = {"search": True} if KINDS[name] is Messages else {}
        beside = stack.enter_context(sync_store.initialize({**network.beside, **options}))
        config = {**network.through, **options, "timeout": timeout}
        store = _initialized(lambda: runner.run(kind.initialize(config)))
        stack.callback(lambda: runner.run(store.close()))
        yield KINDS[name](network, runner, store, beside)
