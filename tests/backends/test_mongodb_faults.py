"""The MongoDB store with a server that is absent, silent, restarted, or refuses its user."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import anyio
import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from jazzmine import ConfigurationError, StoreUnavailableError
from jazzmine.backends.mongodb.errors import translated
from jazzmine.core.message_store import MessageStore as AsyncMessageStore
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, ids, message, messages
from tests.faults.sizes import TOLERANCE
from tests.servers import mongodb
from tests.servers.programs import Program

Config = dict[str, Any]
TIMEOUT = 1.5
LATEST = TIMEOUT + 0.5 + TOLERANCE
SECRET = "s3cr3t-passw0rd"


@pytest.fixture(scope="module")
def server() -> Iterator[mongodb.Server]:
    """A server that a test may suspend and kill; it runs again before the next test."""
    with mongodb.Server() as started:
        yield started


@pytest.fixture
def config(server: mongodb.Server) -> Config:
    """A database for one test: an abandoned transaction may keep locks on its documents."""
    name = f"jazzmine_test_{uuid4().hex}"
    return {"storage": "mongodb", "uri": server.url, "db": name, "timeout": TIMEOUT}


@pytest.fixture
def shared() -> Iterator[Config]:
    """A database of the server that all tests share."""
    with mongodb.database() as configuration:
        yield configuration


CALLS: dict[str, Callable[[Any], Any]] = {
    "a read": lambda store: store.get_message_by_id("m1"),
    "a write": lambda store: store.store_message(message()),
    "a transaction": lambda store: store.store_messages(messages("m1", "m2")),
    "ping": lambda store: store.ping(),
}


def _failing(uri: str, commands: list[str], times: int, **how: Any) -> None:
    data = {"failCommands": commands, **how}
    mongodb.client(uri).admin.command(
        "configureFailPoint", "failCommand", mode={"times": times}, data=data
    )


# The server keeps the locks of an abandoned transaction for up to 60 s:
# https://www.mongodb.com/docs/manual/core/transactions-production-consideration/
# so later calls of a test write other messages.

# Fail points: https://github.com/mongodb/mongo/wiki/The-%22failCommand%22-fail-point
NOT_PRIMARY = 10107


@pytest.mark.parametrize(
    "how", [{"closeConnection": True}, {"errorCode": NOT_PRIMARY}], ids=["cut", "not primary"]
)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_is_repeated_after_a_cut_or_a_change_of_primary(
    shared: Config, how: dict[str, Any], call: Callable[[Any], Any]
) -> None:
    # After this reply the driver waits for the next heartbeat, every 10 s by default; it learns
    # of a real change of primary at once.
    uri = f"{shared['uri']}/?heartbeatFrequencyMS=500"
    with MessageStore.initialize({**shared, "uri": uri}) as store:
        store.store_conversation(conversation())
        _failing(shared["uri"], ["find", "update", "ping"], 2, **how)

        call(store)


@pytest.mark.parametrize("label", ["TransientTransactionError", "UnknownTransactionCommitResult"])
def test_a_transaction_is_repeated_as_the_label_allows(shared: Config, label: str) -> None:
    failing = "update" if label == "TransientTransactionError" else "commitTransaction"
    with MessageStore.initialize(shared) as store:
        store.store_conversation(conversation())
        _failing(shared["uri"], [failing], 3, errorCode=112, errorLabels=[label])

        store.store_messages(messages("m1", "m2"))

        assert ids(store.get_messages_by_conversation_id("c1")) == ["m1", "m2"]


# Addresses and secrets


def _everything_said(error: BaseException, caplog: pytest.LogCaptureFixture) -> str:
    chain = "".join(traceback.format_exception(error))
    return f"{chain}{error!r}{caplog.text}{error.__cause__!r}{error.__context__!r}"


def test_wrong_credentials_are_reported_within_the_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with mongodb.Server() as server:
        with MongoClient[dict[str, Any]](server.url) as admin:
            admin.admin.command("createUser", "user", pwd="right", roles=["root"])
        server.stop()
        server.start("--auth")
        uri = server.url.replace("//", f"//user:{SECRET}@")
        started = time.monotonic()

        with pytest.raises(StoreUnavailableError, match="user name or password") as raised:
            MessageStore.initialize({"storage": "mongodb", "uri": uri, "timeout": TIMEOUT})

        assert time.monotonic() - started < LATEST
        assert SECRET not in _everything_said(raised.value, caplog)
        right = uri.replace(SECRET, "right") + "/chat?authSource=admin"
        with MessageStore.initialize(right) as store:
            store.ping()


# Services with the protocol of MongoDB


@pytest.mark.parametrize(
    "said",
    [
        "bad auth : authentication failed",
        "user is not allowed to do action [insert] on [chat.messages]",
        "you are over your space quota, using 513 MB of 512 MB",
    ],
)
def test_what_atlas_says_is_passed_on(said: str) -> None:
    error = OperationFailure(said, 8000, {"errmsg": said, "code": 8000})

    shown = translated(error, "cluster0.example", reached=True)

    assert isinstance(shown, StoreUnavailableError)
    assert str(shown) == f"MongoDB at cluster0.example: {said}"


@pytest.mark.parametrize("code", [59, 115])
def test_a_server_that_knows_no_rights_is_opened(shared: Config, code: int) -> None:
    _failing(shared["uri"], ["connectionStatus"], 1, errorCode=code)

    with MessageStore.initialize(shared) as store:
        store.store_conversation(conversation())


@pytest.mark.parametrize("code", [13, 67, 115, 8000])
def test_a_server_that_refuses_an_index_says_why(shared: Config, code: int) -> None:
    _failing(shared["uri"], ["createIndexes"], 1, errorCode=code)

    with pytest.raises(ConfigurationError, match=r"refused an index .*failCommand"):
        MessageStore.initialize(shared)


# Threads, processes, event loops


# Streaming responses of Starlette cancel so when the client goes away.
@pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("name", ["a read", "a write", "a transaction"])
async def test_a_cancel_scope_ends_a_call_and_leaves_the_store_usable(
    server: mongodb.Server, config: Config, name: str
) -> None:
    async with await AsyncMessageStore.initialize(config) as store:
        await store.store_conversation(conversation())
        for _ in range(3):
            with server.silent(), anyio.move_on_after(0.05) as scope:
                await CALLS[name](store)
            assert scope.cancelled_caught
        calls = [store.get_message_by_id("m1") for _ in range(20)]
        with anyio.move_on_after(0.002):
            await asyncio.gather(*calls)

        await store.store_messages(messages("m8", "m9"))
        assert await store.delete_conversation("c1")


def test_many_processes_may_start_at_once(shared: Config) -> None:
    opening = (
        "import sys; from jazzmine.sync import MessageStore;"
        "MessageStore.initialize({'storage': 'mongodb', 'uri': sys.argv[1], 'db': sys.argv[2]})"
        ".close()"
    )
    command = [sys.executable, "-c", opening, shared["uri"], shared["db"]]
    starting = [Program(command) for _ in range(6)]

    assert [process.wait(240) for process in starting] == [0] * 6
