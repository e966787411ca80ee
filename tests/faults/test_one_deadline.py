"""All statements of a call have one deadline: that of the call.

Each reply takes 0.7 of it, so a call of two statements cannot succeed, however slow the machine is;
it would if the second statement had a deadline of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from jazzmine import MemoryItem, PutItem, StoreUnavailableError
from jazzmine._sync.clients.mongodb import client as mongodb_client
from jazzmine._sync.clients.postgres import client as postgres_client
from jazzmine.deadline import Deadline
from jazzmine.sync import LongTermMemoryStore, MessageStore
from tests.behaviour.samples import conversation, message, messages, trace
from tests.faults.networks import NETWORKS, Config
from tests.servers import mongodb, postgres
from tests.servers.proxy import Proxy

TIMEOUT = 0.5
Call = Callable[[Any], object]


def item(key: str = "k") -> MemoryItem:
    return MemoryItem(namespace=("n",), key=key, value={"text": "hello"}, user_id="u1")


def scoped(call: Call) -> Call:
    return lambda store: call(store.scoped(user_id="u1"))


# Calls of several statements, each of which may be repeated.
MESSAGES: dict[str, Call] = {
    "a page that is filled up": lambda store: store.get_messages_by_conversation_id("c2", limit=2),
    "search_messages": lambda store: store.search_messages("hello"),
    "search_messages by time": lambda store: store.search_messages("hello", order="newest"),
}
MESSAGES_ON_MONGODB: dict[str, Call] = {
    **MESSAGES,
    "append_messages": lambda store: store.append_messages("c1", [message("new")]),
    "store_turn": lambda store: store.store_turn(messages=messages("m1", "m2"), trace=trace("m1")),
    "pop_message": lambda store: store.pop_message("c1"),
    "edit_conversation, scoped": scoped(lambda store: store.edit_conversation("c1", title="x")),
    "get_messages_by_ids": lambda store: store.get_messages_by_ids(
        f"m{number}" for number in range(10_001)
    ),
}
ITEMS: dict[str, Call] = {"search_items": lambda store: store.search_items("hello")}
ITEMS_ON_MONGODB: dict[str, Call] = {
    **ITEMS,
    "put": lambda store: store.put(item()),
    "put, scoped": scoped(lambda store: store.put(item())),
    "apply": lambda store: store.apply([PutItem(item()), PutItem(item("l"))]),
}
CASES = [
    *(("postgres", MessageStore, name) for name in MESSAGES),
    *(("mongodb", MessageStore, name) for name in MESSAGES_ON_MONGODB),
    *(("postgres", LongTermMemoryStore, name) for name in ITEMS),
    *(("mongodb", LongTermMemoryStore, name) for name in ITEMS_ON_MONGODB),
]


@contextmanager
def opened(kind: str, store: Any, timeout: float) -> Iterator[tuple[Proxy, Any]]:
    """Open a store with a few records behind a proxy; its connections are open, too."""
    options = {"search": True} if store is MessageStore else {}
    with ExitStack() as stack:
        network = stack.enter_context(NETWORKS[kind]())
        beside = stack.enter_context(store.initialize({**network.beside, **options}))
        if store is MessageStore:
            beside.store_conversation(conversation())
            beside.store_messages([message(f"m{n}", original_content="hello") for n in range(4)])
            spoil(kind, network.beside, beside)
        else:
            beside.put(item())
        config = {**network.through, **options, "timeout": timeout}
        if kind == "postgres":
            config["pool_max"] = 1  # another connection would prepare the statements once more
        behind = None
        while behind is None:  # on a busy machine it may take longer
            with suppress(StoreUnavailableError):
                behind = stack.enter_context(store.initialize(config))
        yield network.proxy, behind


def spoil(kind: str, config: Config, store: MessageStore) -> None:
    """Store a conversation with a message that this library would not store."""
    store.store_conversation(conversation("c2"))
    store.store_messages(messages("n0", "n1", "n2", conversation_id="c2"))
    if kind == "mongodb":
        database = mongodb.client(str(config["uri"]))[str(config["db"])]
        database.messages.update_one({"id": "n0"}, {"$set": {"role": "nobody"}})
        return
    with postgres.connect(postgres.dsn(), options=f"-c search_path={config['schema']}") as admin:
        admin.execute("UPDATE messages SET role = 'nobody' WHERE id = 'n0'")


def assert_one_deadline(kind: str, store: Any, name: str) -> None:
    """Fail if a call of several statements succeeds when each reply takes 0.7 of its time."""
    with opened(kind, store, TIMEOUT) as (proxy, behind):
        call = {**MESSAGES_ON_MONGODB, **ITEMS_ON_MONGODB}[name]
        is_warm = False
        while not is_warm:
            with suppress(StoreUnavailableError):
                call(behind)
                is_warm = True
        proxy.delay = TIMEOUT * 0.7
        try:
            call(behind)
        except StoreUnavailableError:
            return
        finally:
            proxy.delay = 0
        pytest.fail("each statement has a deadline of its own")


@pytest.mark.every_combination
@pytest.mark.parametrize(("kind", "store", "name"), CASES)
def test_a_call_of_several_statements_has_one_deadline(kind: str, store: Any, name: str) -> None:
    assert_one_deadline(kind, store, name)


@pytest.mark.parametrize(
    ("kind", "store", "name"),
    [
        ("postgres", MessageStore, "search_messages"),
        ("postgres", MessageStore, "a page that is filled up"),
        ("mongodb", MessageStore, "append_messages"),
        ("mongodb", LongTermMemoryStore, "put"),
    ],
)
def test_a_deadline_for_each_statement_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kind: str, store: Any, name: str
) -> None:
    for module in (postgres_client, mongodb_client):
        # Longer, so that a busy machine does not hide the defect.
        monkeypatch.setattr(module, "call_deadline", lambda timeout: Deadline(30 * timeout))
    with pytest.raises(pytest.fail.Exception, match=r"deadline of its own"):
        assert_one_deadline(kind, store, name)


def test_each_step_of_a_pruning_has_a_deadline_of_its_own() -> None:
    """On PostgreSQL a page of ids and a step of their deletion are a statement each."""
    timeout = 2.5
    with opened("postgres", MessageStore, timeout) as (proxy, store):
        assert store.prune_conversations(before=2**62) == 2  # the statements are prepared now
        store.store_conversation(conversation())
        proxy.delay = timeout * 0.4
        assert store.prune_conversations(before=2**62) == 1
