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

TIMEOUT = 1.5
SECRET = "s3cr3t-passw0rd"


@pytest.fixture(scope="module")
def server() -> Iterator[mongodb.Server]:
    """A server that a test may suspend and kill; it runs again before the next test."""
    with mongodb.Server() as started:
        yield started


CALLS: dict[str, Callable[[Any], Any]] = {
    "a read": lambda store: store.get_message_by_id("m1"),
    "a write": lambda store: store.store_message(message()),
    "a transaction": lambda store: store.store_messages(messages("m1", "m2")),
}


def test_what_atlas_says_is_passed_on() -> None:
    said = "you are over your space quota, using 513 MB of 512 MB"
    error = OperationFailure(said, 8000, {"errmsg": said, "code": 8000})

    shown = translated(error, "cluster0.example", reached=True)

    assert isinstance(shown, StoreUnavailableError)
    assert str(shown) == f"MongoDB at cluster0.example: {said}"


def test_the_error_says_at_once_why_no_server_was_reached() -> None:
    started = time.monotonic()

    with pytest.raises(StoreUnavailableError) as caught:
        MessageStore.initialize("mongodb://127.0.0.1:1,127.0.0.1:2/chat")

    assert time.monotonic() - started < 10
    reasons = r"127\.0\.0\.1:[12]: \S*.*Connection refused"
    assert re.fullmatch(
        rf"MongoDB at 127\.0\.0\.1:1, 127\.0\.0\.1:2 cannot be reached: {reasons},{reasons};"
        r" `jazzmine doctor` says more",
        str(caught.value),
    )


# Streaming responses of Starlette cancel so when the client goes away.
@pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("name", CALLS)
async def test_a_cancel_scope_ends_a_call_and_leaves_the_store_usable(
    server: mongodb.Server, name: str
) -> None:
    # An abandoned transaction may keep locks on its documents: the next test has others.
    config = {"storage": "mongodb", "uri": server.url, "db": f"test_{uuid4().hex}"}
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


def test_wrong_credentials_are_reported_within_the_deadline(
    server: mongodb.Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The last test, as the server asks for them from then on."""
    caplog.set_level(logging.DEBUG)
    with MongoClient[dict[str, Any]](server.url) as admin:
        admin.admin.command("createUser", "user", pwd="right", roles=["root"])
    server.stop()
    server.start("--auth")
    uri = server.url.replace("//", f"//user:{SECRET}@")
    started = time.monotonic()

    with pytest.raises(StoreUnavailableError, match="user name or password") as raised:
        MessageStore.initialize({"storage": "mongodb", "uri": uri, "timeout": TIMEOUT})

    assert time.monotonic() - started < TIMEOUT + 0.5 + TOLERANCE
    error = raised.value
    said = f"{error!r}{error.__cause__!r}{error.__context__!r}{caplog.text}"
    assert SECRET not in said + "".join(traceback.format_exception(error))
    right = uri.replace(SECRET, "right") + "/chat?authSource=admin"
    with MessageStore.initialize(right) as store:
        store.ping()
