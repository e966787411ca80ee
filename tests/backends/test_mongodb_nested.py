"""A signal handler calls a store within a call of PyMongo, whose locks have no time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jazzmine.sync import LongTermMemoryStore, MessageStore
from tests.behaviour.samples import conversation, message
from tests.servers import mongodb

CALLS: dict[str, Callable[[Any], object]] = {
    "write": lambda store: store.store_message(message("m1")),
    "read": lambda store: store.get_message_by_id("m1"),
    "ping": lambda store: store.ping(),
}
NESTED: list[Callable[[Any], object]] = [*CALLS.values(), lambda store: store.close()]


@pytest.fixture
def config() -> Iterator[dict[str, Any]]:
    with mongodb.database() as opened:
        yield opened


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_within_a_call_of_the_driver_is_refused_at_once(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, call: Callable[[Any], object]
) -> None:
    refused = 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal refused
        monkeypatch.undo()
        for nested in NESTED:
            with pytest.raises(RuntimeError, match="it would wait for itself"):
                nested(store)
            refused += 1
        items.ping()  # another store has locks of its own
        return run(*arguments)

    with MessageStore.initialize(config) as store, LongTermMemoryStore.initialize(config) as items:
        store.store_conversation(conversation())
        client: Any = store.backend
        run = client.client._run
        monkeypatch.setattr(client.client, "_run", interrupted)
        call(store)

        assert refused == len(NESTED)
        store.store_message(message("m1"))
        assert store.get_message_by_id("m1") == message("m1")
