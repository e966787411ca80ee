"""On MongoDB, a write whose reply was lost takes effect once, whatever runs in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import pytest

from tests.behaviour.samples import conversation, message
from tests.faults.faulty_network import APIS, FaultyStore, opened

WRITES: dict[str, Callable[[Any], Any]] = {
    "store_message": lambda store: store.store_message(message("new")),
    "append_messages": lambda store: store.append_messages("c1", [message("new")]),
    "store_turn": lambda store: store.store_turn(
        conversation=conversation(), messages=[message("new")]
    ),
}


@pytest.mark.parametrize(("api", "write"), list(zip(cycle(APIS), WRITES, strict=False)))
def test_a_record_that_was_deleted_meanwhile_does_not_come_back(api: str, write: str) -> None:
    with opened("mongodb", api, 5.0) as store:
        number = 1
        while lose_a_reply(store, write, number):
            number += 1
        assert number > 1


def lose_a_reply(store: FaultyStore, write: str, number: int) -> bool:
    """Lose the `number`-th reply, and delete the data that the write has stored by then."""
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


CUTS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "pop_message": (lambda store: store.pop_message("c1"), message("m1")),
    "rewind_conversation": (lambda store: store.rewind_conversation("c1", after=None), 1),
}


@pytest.mark.parametrize(("api", "cut"), list(zip(cycle(APIS), CUTS, strict=False)))
def test_what_was_appended_meanwhile_is_not_deleted(api: str, cut: str) -> None:
    call, expected = CUTS[cut]
    with opened("mongodb", api, 5.0) as store:
        number, lost = 1, -1
        while store.proxy.lost > lost:
            lost = store.proxy.lost
            store.prepare()
            existed: list[bool] = []
            appending: list[threading.Thread] = []
            store.proxy.on_loss = partial(append_between, store, existed, appending)
            store.proxy.lose_reply(number)
            result = store.runner.run(call(store.store))
            store.proxy.lose_reply(0)
            for thread in appending:
                thread.join()
            if existed == [False]:
                assert result == expected, f"{cut} took effect again when reply {number} was lost"
                found = store.beside.get_messages_by_conversation_id("c1")
                assert [one.id for one in found] == ["between"], f"{cut}, reply {number}"
            number += 1
        assert number > 2


def append_between(
    store: FaultyStore, existed: list[bool], appending: list[threading.Thread]
) -> None:
    """Append a message as another worker does, and tell whether the first one still existed.

    An open transaction of the call, in MongoDB, keeps the append waiting.
    """
    existed.append(store.beside.get_message_by_id("m1") is not None)
    append = partial(store.beside.append_messages, "c1", [message("between")])
    appending.append(threading.Thread(target=append))
    appending[0].start()
    appending[0].join(0.5)
