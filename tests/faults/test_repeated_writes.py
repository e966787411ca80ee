"""A write whose reply was lost takes effect once, even if other calls run in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.behaviour.samples import conversation, message
from tests.faults.faulty_network import APIS, FaultyStore, opened

WRITES: dict[str, Callable[[Any], Any]] = {
    "store_message": lambda store: store.store_message(message("new")),
    "store_messages": lambda store: store.store_messages([message("new"), message("newer")]),
    "store_turn": lambda store: store.store_turn(messages=[message("new")]),
    "a whole store_turn": lambda store: store.store_turn(
        conversation=conversation(), messages=[message("new")]
    ),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", ["postgres", "mongodb"])
def test_what_was_deleted_meanwhile_does_not_come_back(name: str, api: str, write: str) -> None:
    with opened(name, api, 5.0) as store:
        number = 1
        while lose_a_reply(store, write, number):
            number += 1
        assert number > 1


def lose_a_reply(store: FaultyStore, write: str, number: int) -> bool:
    """Lose the `number`-th reply, and delete what the write has stored by then."""
    deleted: list[bool] = []
    store.prepare()
    store.proxy.on_loss = lambda: deleted.append(store.beside.delete_message("new"))
    store.proxy.lose_reply(number)
    lost = store.proxy.lost
    store.runner.run(WRITES[write](store.store))
    store.proxy.lose_reply(0)
    if deleted == [True]:
        found = store.beside.get_message_by_id("new")
        assert found is None, f"{write} took effect again when reply {number} was lost"
    return store.proxy.lost > lost
