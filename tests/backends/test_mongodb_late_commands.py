"""A command of an abandoned call takes no effect after a later call has returned."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jazzmine import StoreUnavailableError
from jazzmine.core.message_store import MessageStore as AsyncMessageStore
from jazzmine.sync.message_store import MessageStore
from tests.backends.mongodb_commands import Commands
from tests.behaviour.samples import conversation, message, messages, trace
from tests.servers import mongodb
from tests.servers.proxy import Proxy

Config = dict[str, Any]
TIMEOUT = 1.0


@pytest.fixture(scope="module")
def server() -> Iterator[mongodb.Server]:
    with mongodb.Server() as started:
        yield started


@pytest.fixture
def proxy(server: mongodb.Server) -> Iterator[Proxy]:
    with Proxy(server.port) as between:
        yield between


@pytest.fixture
def config(server: mongodb.Server, proxy: Proxy) -> Iterator[Config]:
    with mongodb.database(server.url) as direct:
        uri = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true"
        yield {**direct, "uri": uri, "timeout": TIMEOUT}


OLD, NEW = (message(original_content=content) for content in ("old", "new"))

WRITES: dict[str, Callable[[Any], Any]] = {
    "one message": lambda store: store.store_message(OLD),
    "messages": lambda store: store.store_messages([OLD, message("m2")]),
    "a turn": lambda store: store.store_turn(messages=[OLD], trace=trace("m1")),
    "a conversation": lambda store: store.store_conversation(conversation(title="old")),
    "a flag": lambda store: store.flag_message("m1"),
    "a deletion": lambda store: store.delete_message("m1"),
    "an append": lambda store: store.append_messages("c1", [message("m2")]),
    "a regenerated answer": lambda store: store.append_messages(
        "c1", [message("m2")], replace_after=None
    ),
    "an edit": lambda store: store.edit_conversation("c1", title="old"),
    "a pop": lambda store: store.pop_message("c1"),
    "a rewind": lambda store: store.rewind_conversation("c1", after=None),
    "a new conversation": lambda store: store.get_or_create_conversation(conversation("c2")),
    "a copy": lambda store: store.fork_conversation("c1", conversation("c2")),
    "an erasure": lambda store: store.erase_user("u1"),
    "a clean-up": lambda store: store.prune_conversations(before=2**62),
    "a trace": lambda store: store.store_turn_trace(trace("m1", turn_number=9)),
}


def deliver(proxy: Proxy) -> None:
    """Deliver all held data, and wait until the server has processed it."""
    assert proxy.held
    proxy.deliver()
    for _ in range(100):
        if not any(connection.client_closed for connection in proxy.open):
            return
        time.sleep(0.05)
    raise AssertionError("the server keeps a connection that has ended")


def let_new_connections_pass(proxy: Proxy) -> None:
    """Keep the held data, cut the other connections, and hold nothing on future connections."""
    proxy._hold_after = None
    for connection in proxy.open:
        if not connection.held:
            connection.cut()


def cut_clients(proxy: Proxy) -> None:
    """Make the client's calls fail, keep the held data, and hold nothing more."""
    proxy._hold_after = None
    for connection in proxy.open:
        connection.cut_client() if connection.held else connection.cut()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_an_abandoned_write_does_not_undo_a_later_one(
    proxy: Proxy, config: Config, write: Callable[[Any], Any]
) -> None:
    with MessageStore.initialize(config) as store:
        store.store_turn(conversation=conversation(), messages=[NEW], trace=trace("m1"))
        proxy.hold()
        with pytest.raises(StoreUnavailableError):
            write(store)
        let_new_connections_pass(proxy)

        store.store_turn(conversation=conversation(), messages=[NEW], trace=trace("m1"))
        deliver(proxy)

        assert store.get_message_by_id("m1") == NEW
        assert store.get_conversation_by_id("c1") == conversation()
        assert store.get_turn_trace_by_message_id("m1") == trace("m1")
        assert store.get_conversation_by_id("c2") is None
        assert len(store.get_messages_by_user_id("u1")) == 1


def test_a_read_waits_until_an_abandoned_write_cannot_take_effect(
    proxy: Proxy, config: Config
) -> None:
    with MessageStore.initialize(config) as store:
        store.store_turn(conversation=conversation(), messages=[NEW])
        proxy.hold()
        with pytest.raises(StoreUnavailableError):
            store.store_message(OLD)
        let_new_connections_pass(proxy)

        assert store.get_message_by_id("m1") == NEW
        deliver(proxy)

        assert store.get_message_by_id("m1") == NEW


def test_a_repeated_write_without_effect_is_not_carried_out_later(
    proxy: Proxy, config: Config
) -> None:
    # The server stores the number of a statement only if it changed a document.
    with MessageStore.initialize({**config, "timeout": 10}) as store:
        store.store_turn(conversation=conversation(), messages=[NEW])
        store.flag_message("m1")
        proxy.hold()
        cut = threading.Timer(0.3, cut_clients, [proxy])
        cut.start()
        store.flag_message("m1")
        store.flag_message("m1", False)

        deliver(proxy)

        assert store.get_message_by_id("m1") == NEW


async def test_a_cancelled_write_is_not_carried_out_later(proxy: Proxy, config: Config) -> None:
    async with await AsyncMessageStore.initialize({**config, "timeout": 10}) as store:
        await store.store_turn(conversation=conversation(), messages=[NEW])
        proxy.hold()
        call = asyncio.ensure_future(store.store_message(OLD))
        await asyncio.sleep(0.2)
        call.cancel()
        await asyncio.wait([call])
        let_new_connections_pass(proxy)

        await store.store_message(NEW)
        await asyncio.to_thread(deliver, proxy)

        assert await store.get_message_by_id("m1") == NEW


async def test_no_later_call_continues_before_the_former_one_is_harmless(
    proxy: Proxy, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands(monkeypatch)
    async with await AsyncMessageStore.initialize(config) as store:
        await store.store_turn(conversation=conversation(), messages=[NEW])
        proxy.hold()
        with pytest.raises(StoreUnavailableError):
            await store.store_message(OLD)
        given_up = commands.bodies[-1]
        commands.clear()
        let_new_connections_pass(proxy)

        await asyncio.gather(*(store.get_message_by_id("m1") for _ in range(5)))

        first, *others = commands.bodies
        assert first["lsid"] == given_up["lsid"]
        assert first["startTransaction"]
        assert first["txnNumber"] > given_up["txnNumber"]
        begun_in = [body["lsid"] == given_up["lsid"] for body in commands.bodies]
        assert sorted(begun_in, reverse=True) == begun_in
        assert len(others) >= 5


def test_the_attempts_of_a_call_have_one_session_and_one_number(
    config: Config, server: mongodb.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands(monkeypatch)
    with MessageStore.initialize({**config, "timeout": 10}) as store:
        store.store_conversation(conversation())
        store.store_message(NEW)
        commands.clear()
        mongodb.client(server.url).admin.command(
            "configureFailPoint",
            "failCommand",
            mode={"times": 2},
            data={"failCommands": ["update"], "closeConnection": True},
        )

        store.store_message(OLD)

        attempts = [body for body in commands.bodies if "update" in body]
        assert len(attempts) == 3
        assert len({(str(body["lsid"]), body["txnNumber"]) for body in attempts}) == 1


def test_a_standalone_server_gets_no_session_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands(monkeypatch)
    with (
        mongodb.database(mongodb.running("--standalone").url) as standalone,
        MessageStore.initialize(standalone) as store,
    ):
        store.store_conversation(conversation())
        store.store_messages(messages("m1", "m2"))

        assert not any("txnNumber" in body for body in commands.bodies)
