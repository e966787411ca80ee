"""A network that loses the k-th reply, is slow, is cut or becomes silent, for every method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jazzmine.deadline import Deadline
from jazzmine.records.stored_memory import Lock
from tests.faults import faulty_network as faulty_network
from tests.faults.faulty_network import APIS, CID, FaultyStore, is_unavailable, opened
from tests.faults.networks import NETWORKS
from tests.faults.sizes import SOAK, TOLERANCE, report, size, some

SUFFICIENT = 5.0  # the time of a call that should succeed, in s
SHORT = 0.3  # the time of a call that should fail, in s
LATER = 0.5 + TOLERANCE

# A transaction, a cascade, and methods that take a lock.
INTRICATE = (
    "store_turn",
    "delete_conversation",
    "append_messages",
    "pop_message",
    "rewind_conversation",
    "fork_conversation",
    "erase_user",
    "locked",
    "delete",
)


def chosen(store: FaultyStore, name: str, api: str, count: int) -> list[str]:
    """Return all methods or, in the suite, the most complex ones and so many others.

    PyMongo waits half a second before it looks for a server again, and the sync API is generated:
    in the suite both have a few.
    """
    intricate = [name for name in INTRICATE if name in store.methods]
    others = [name for name in store.methods if name not in intricate]
    if SOAK:
        return intricate + others
    if name == "mongodb":
        return intricate[list(APIS).index(api) :][:1]
    return [*intricate, *some(others, count if api == "async" else 1)]


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=NETWORKS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def faulty_store(name: str, api: str) -> Iterator[FaultyStore]:
    with opened(name, api, SUFFICIENT) as store:
        yield store


@pytest.fixture
def short_timeout_store(name: str, api: str) -> Iterator[FaultyStore]:
    with opened(name, api, SHORT) as store:
        yield store


def without_faults(store: FaultyStore, method: str) -> tuple[list[Any], Any, list[Any]]:
    """Return the stored data before a call, its result, and the data after it; then undo it."""
    store.prepare()
    before = store.seen()
    clean = store.clean(method)
    after = store.seen()
    store.prepare()
    return before, clean, after


# When they are repeated, they may find nothing that is left to be deleted or changed.
COUNTING = (
    "delete",
    "delete_conversation",
    "delete_message",
    "erase_user",
    "move_user",
    "prune_conversations",
    "rewind_conversation",
)


def lose_a_reply(store: FaultyStore, method: str, number: int) -> bool:
    """Lose the `number`-th reply to a call, and fail unless it took effect once or not at all.

    Returns:
        Whether there was such a reply.
    """
    before, clean, after = without_faults(store, method)
    lost = store.proxy.lost
    store.proxy.lose_reply(number)
    result, took = store.call(method)
    store.proxy.lose_reply(0)
    where = f"{method}, reply {number}"
    assert took < SUFFICIENT + LATER, f"{where}: not back at the deadline"
    if is_unavailable(result):
        assert store.seen() in (before, after), f"{where}: half an effect"
        store.works_again()
        return True
    if method not in COUNTING:
        assert result == clean, f"{where}: another result"
    assert store.seen() == after, f"{where}: another effect"
    return store.proxy.lost > lost


def times(disturb: Callable[[FaultyStore, str, int], bool], store: FaultyStore, method: str) -> int:
    """Disturb the first reply to a call, the second, and so on; return the number of replies."""
    number = 1
    while disturb(store, method, number):
        number += 1
    return number - 1


def test_whichever_reply_is_lost_a_call_is_made_once(
    faulty_store: FaultyStore, name: str, api: str
) -> None:
    methods = chosen(faulty_store, name, api, 100)
    lost = sum(times(lose_a_reply, faulty_store, method) for method in methods)
    faulty_store.works_again()

    assert lost >= len(methods)
    report(
        f"network, {name}, {api}: {len(methods)} methods, {lost} replies lost: 0 doubled or halved"
    )


def test_connections_that_were_cut_are_replaced(
    faulty_store: FaultyStore, name: str, api: str
) -> None:
    for method in chosen(faulty_store, name, api, 2):
        faulty_store.prepare()
        faulty_store.proxy.cut()
        result, took = faulty_store.call(method)
        assert not is_unavailable(result), method
        assert took < SUFFICIENT + LATER


def go_silent(store: FaultyStore, method: str, number: int) -> bool:
    """Drop all replies from the `number`-th on, and fail unless the call ends in time.

    Returns:
        Whether there was such a reply.
    """
    before, clean, after = without_faults(store, method)
    store.proxy.lose_reply(number, silently=True)
    result, took = store.call(method)
    silent, store.proxy.swallow_replies = store.proxy.swallow_replies, False
    store.proxy.lose_reply(0)
    where = f"{method}, silent from reply {number} on"
    assert took < SHORT + LATER, f"{where}: not back at the deadline"
    if is_unavailable(result):
        assert store.seen() in (before, after), f"{where}: half an effect"
    else:
        # There was no such reply, or it was for another connection that a pool opened.
        assert result == clean, f"{where}: it returned data that it has not read"
        assert store.seen() == after, f"{where}: another effect"
    if silent:
        if number % 2:
            store.proxy.cut()
        store.works_again()
    return silent


def test_a_call_on_a_network_that_becomes_silent_ends_at_the_deadline(
    short_timeout_store: FaultyStore, name: str, api: str
) -> None:
    methods = chosen(short_timeout_store, name, api, 1)
    if SOAK:
        count = sum(times(go_silent, short_timeout_store, method) for method in methods)
    else:
        count = sum(
            go_silent(short_timeout_store, method, 1 + len(method) % 2) for method in methods
        )

    assert count
    report(f"network, {name}, {api}: silent at {count} moments: ended within {SHORT + 0.5} s")


def test_calls_whose_requests_are_lost_end_at_the_deadline(
    short_timeout_store: FaultyStore, name: str, api: str
) -> None:
    for method in chosen(short_timeout_store, name, api, 0)[size(-1, 0) :]:
        short_timeout_store.prepare()
        short_timeout_store.proxy.swallow_requests = True
        result, took = short_timeout_store.call(method)
        short_timeout_store.proxy.swallow_requests = False
        assert is_unavailable(result), method
        assert took < SHORT + LATER
        short_timeout_store.works_again()


class TestMutants:
    """The harness detects a store with a deliberate defect."""

    def test_an_effect_that_is_doubled_is_found_out(self) -> None:
        with opened("redis", "sync", SUFFICIENT) as store:
            end_turn = store.store.end_turn

            async def repeat_what_was_lost(*arguments: Any) -> Any:
                lost = store.proxy.lost
                result = await end_turn(*arguments)
                return await end_turn(*arguments) if store.proxy.lost > lost else result

            store.store.end_turn = repeat_what_was_lost

            with pytest.raises(AssertionError, match="another result"):
                lose_a_reply(store, "end_turn", 1)

    def test_half_an_effect_is_found_out(self) -> None:
        with opened("postgres", "sync", SUFFICIENT) as store:

            async def store_one_by_one(messages: Any) -> None:
                lost = store.proxy.lost
                for message in messages:
                    if store.proxy.lost == lost:
                        await store.store.store_message(message)

            store.store.store_messages = store_one_by_one

            with pytest.raises(AssertionError, match="another effect"):
                lose_a_reply(store, "store_messages", 1)

    def test_a_deadline_that_is_not_kept_is_found_out(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(globals(), "LATER", 0.1)
        with (
            opened("redis", "sync", SHORT + 0.5) as store,
            pytest.raises(AssertionError, match="not back at the deadline"),
        ):
            go_silent(store, "get", 1)

    def test_a_lock_that_is_never_released_is_detected(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with opened("redis", "sync", SHORT) as store:
            store.prepare()
            lock = Lock(CID, "0123456789abcdef", "nobody", 3.0)
            store.runner.run(store.store.backend.lock(lock, Deadline(10.0)))
            monkeypatch.setattr(faulty_network, "WORKS_AGAIN", 1.0)
            monkeypatch.setattr(faulty_network, "TOLERANCE", 0.0)
            with pytest.raises(AssertionError, match="until the store works again"):
                store.works_again()
