"""The network does not carry a large reply of PostgreSQL: no row is locked meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from jazzmine.records.messages import Message
from jazzmine.sync import Stores, open_stores
from tests.backends.postgres_samples import behind, bound, config, conversation, message
from tests.servers import postgres
from tests.servers.proxy import Proxy
from tests.servers.redis import eventually

LARGE = "x" * 10_000_000


@pytest.fixture
def schema() -> Iterator[str]:
    with postgres.empty_schema() as name:
        yield name


def said(text: str) -> Message:
    return message("m1").model_copy(update={"original_content": text})


@contextmanager
def released(proxy: Proxy) -> Iterator[None]:
    """Let the proxy carry everything in the end, also if the test fails."""
    try:
        yield
    finally:
        proxy.largest = 0


def locked(stores: Stores) -> None:
    with stores.working_memory.locked("c"):
        pass


LARGE_REPLIES: dict[str, Callable[[Stores], Any]] = {
    "a pop": lambda stores: stores.messages.pop_message("c1"),
    "an edit": lambda stores: stores.messages.edit_conversation("c1", title="new"),
    "a found conversation": lambda stores: stores.messages.get_or_create_conversation(
        conversation()
    ),
    "an update of an older state": lambda stores: stores.working_memory.end_turn("c", "Hi", "x"),
    "a state that is found": lambda stores: stores.working_memory.get_or_create("c", "u", "a"),
    "a block": locked,
}


@pytest.mark.parametrize("call", LARGE_REPLIES.values(), ids=LARGE_REPLIES)
def test_a_large_reply_that_the_network_does_not_carry_keeps_nothing_locked(
    schema: str, call: Callable[[Stores], Any]
) -> None:
    large = conversation().model_copy(update={"metadata": {"text": LARGE}})
    with (
        Proxy(postgres.port_of(postgres.dsn())) as proxy,
        open_stores(behind(proxy, schema, timeout=60)) as stores,
        open_stores(config(schema)) as others,
        postgres.connect(postgres.dsn()) as admin,
        ThreadPoolExecutor(1) as thread,
        released(proxy),
    ):
        stores.working_memory.get_or_create("c", "u", "a")
        others.working_memory.set_data("c", text=LARGE)
        others.messages.store_turn(conversation=large, messages=[said(LARGE)])
        proxy.largest = 4_096
        calling = thread.submit(call, stores)
        sending = "SELECT FROM pg_stat_activity WHERE wait_event = 'ClientWrite' AND query LIKE %s"
        eventually(lambda: admin.execute(sending.encode(), [f"%{schema}%"]).fetchall())

        for table in ("conversations", "working_memory"):
            admin.execute(bound(f"SELECT FROM $schema.{table} FOR UPDATE NOWAIT", schema))
        others.messages.append_messages("c1", [message("m2")])

        assert not calling.done()
