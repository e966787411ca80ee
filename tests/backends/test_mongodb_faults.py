"""The MongoDB store with a server that is absent, silent, restarted, or refuses its user."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import anyio
import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from jazzmine import StoreUnavailableError
from jazzmine.backends.mongodb.errors import translated
from jazzmine.core.message_store import MessageStore as AsyncMessageStore
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, message, messages
from tests.faults.sizes import TOLERANCE
from tests.servers import mongodb

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


CALLS: dict[str, Callable[[Any], Any]] = {
    "a read": lambda store: store.get_message_by_id("m1"),
    "a write": lambda store: store.store_message(message()),
    "a transaction": lambda store: store.store_messages(messages("m1", "m2")),
}


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


def test_what_atlas_says_is_passed_on() -> None:
    said = "you are over your space quota, using 513 MB of 512 MB"
    error = OperationFailure(said, 8000, {"errmsg": said, "code": 8000})

    shown = translated(error, "cluster0.example", reached=True)

    assert isinstance(shown, StoreUnavailableError)
    assert str(shown) == f"MongoDB at cluster0.example: {said}"


# The network


def config_of(*ports: int) -> Config:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    name = f"jazzmine_test_{uuid4().hex}"
    return {"storage": "mongodb", "uri": f"mongodb://{hosts}/", "db": name, "timeout": TIMEOUT}


def test_the_error_says_at_once_why_no_server_was_reached() -> None:
    started = time.monotonic()

    with pytest.raises(StoreUnavailableError) as caught:
        MessageStore.initialize({**config_of(1, 2), "timeout": 30})

    assert time.monotonic() - started < 10
    reasons = r"127\.0\.0\.1:[12]: \S*.*Connection refused"
    assert re.fullmatch(
        rf"MongoDB at 127\.0\.0\.1:1, 127\.0\.0\.1:2 cannot be reached: {reasons},{reasons};"
        r" `jazzmine doctor` says more",
        str(caught.value),
    )


# Threads, processes, event loops


# Streaming responses of Starlette cancel so when the client goes away.
@pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("name", CALLS)
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
