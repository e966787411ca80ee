"""A network that loses the k-th reply, is slow, is cut or becomes silent, for every method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.faults import faulty_network as faulty_network
from tests.faults.faulty_network import APIS, FaultyStore, is_unavailable, opened
from tests.faults.networks import NETWORKS
from tests.faults.sizes import LENIENCE, SOAK, size, some, tell

PATIENCE = 5.0  # the time of a call that should succeed, in s
HASTE = 0.5  # the time of a call that should fail, in s
LATER = 0.5 + LENIENCE

# A transaction, a cascade, and what takes a lock.
INTRICATE = ("store_turn", "delete_conversation", "locked", "delete")


def chosen(store: FaultyStore, count: int) -> list[str]:
    """All methods or, in the suite, the most intricate and so many others."""
    intricate = [name for name in INTRICATE if name in store.methods]
    return [*intricate, *some((name for name in store.methods if name not in intricate), count)]


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=NETWORKS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def patient(name: str, api: str) -> Iterator[FaultyStore]:
    with opened(name, api, PATIENCE) as store:
        yield store


@pytest.fixture
def hasty(name: str, api: str) -> Iterator[FaultyStore]:
    with opened(name, api, HASTE) as store:
        yield store


def without_faults(store: FaultyStore, method: str) -> tuple[list[Any], Any, list[Any]]:
    """What is stored before a call, its result, and what is stored after it; then undo it."""
    store.prepare()
    before = store.seen()
    clean = store.clean(method)
    after = store.seen()
    store.prepare()
    return before, clean, after


def lose_a_reply(store: FaultyStore, method: str, number: int) -> bool:
    """Lose the `number`-th reply to a call, and fail unless it was made once or not at all.

    Returns:
        Whether there was such a reply.
    """
    before, clean, after = without_faults(store, method)
    lost = store.proxy.lost
    store.proxy.lose_reply(number)
    result, took = store.call(method)
    store.proxy.lose_reply(0)
    where = f"{method}, reply {number}"
    assert took < PATIENCE + LATER, f"{where}: not back at the deadline"
    if is_unavailable(result):
        assert store.seen() in (before, after), f"{where}: half an effect"
        store.works_again()
        return True
    assert result == clean, f"{where}: another result"
    assert store.seen() == after, f"{where}: another effect"
    return store.proxy.lost > lost


def times(disturb: Callable[[FaultyStore, str, int], bool], store: FaultyStore, method: str) -> int:
    """Disturb the first reply to a call, the second, and so on; return how many there were."""
    number = 1
    while disturb(store, method, number):
        number += 1
    return number - 1


def test_whichever_reply_is_lost_a_call_is_made_once(
    patient: FaultyStore, name: str, api: str
) -> None:
    methods = chosen(patient, 100)
    if name == "mongodb" and not SOAK:
        # Each lost reply costs half a second: PyMongo asks no sooner whether a server is back.
        methods = [dict(zip(APIS, INTRICATE, strict=False))[api]]
    lost = sum(times(lose_a_reply, patient, method) for method in methods)
    patient.works_again()

    assert lost >= len(methods)
    tell(
        f"network, {name}, {api}: {len(methods)} methods, {lost} replies lost: 0 doubled or halved"
    )


def test_a_slow_network_is_waited_for(patient: FaultyStore) -> None:
    for method in chosen(patient, 2):
        patient.prepare()
        patient.proxy.delay = 0.05
        result, _ = patient.call(method)
        patient.proxy.delay = 0
        assert not is_unavailable(result), method


def test_connections_that_were_cut_are_replaced(patient: FaultyStore) -> None:
    for method in chosen(patient, 2):
        patient.prepare()
        patient.proxy.cut()
        result, took = patient.call(method)
        assert not is_unavailable(result), method
        assert took < PATIENCE + LATER


def go_silent(store: FaultyStore, method: str, number: int) -> bool:
    """Have no reply come from the `number`-th on, and fail unless the call is given up in time.

    Returns:
        Whether there was such a reply.
    """
    before, clean, after = without_faults(store, method)
    store.proxy.lose_reply(number, silently=True)
    result, took = store.call(method)
    silent, store.proxy.swallow_replies = store.proxy.swallow_replies, False
    store.proxy.lose_reply(0)
    where = f"{method}, silent from reply {number} on"
    assert took < HASTE + LATER, f"{where}: not back at the deadline"
    if is_unavailable(result):
        assert store.seen() in (before, after), f"{where}: half an effect"
    else:
        # There was no such reply, or it was one to a connection that a pool opened beside.
        assert result == clean, f"{where}: it knows what it was not told"
        assert store.seen() == after, f"{where}: another effect"
    if silent:
        if number % 2:
            store.proxy.cut()
        store.works_again()
    return silent


def test_a_network_that_goes_silent_is_given_up_at_the_deadline(
    hasty: FaultyStore, name: str, api: str
) -> None:
    methods = chosen(hasty, 1)
    if SOAK:
        count = sum(times(go_silent, hasty, method) for method in methods)
    else:
        count = sum(go_silent(hasty, method, 1 + len(method) % 2) for method in methods)

    assert count
    tell(f"network, {name}, {api}: silent at {count} moments: given up within {HASTE + 0.5} s")


def test_requests_that_vanish_are_given_up_at_the_deadline(hasty: FaultyStore) -> None:
    for method in chosen(hasty, 0)[size(-1, 0) :]:
        hasty.prepare()
        hasty.proxy.swallow_requests = True
        result, took = hasty.call(method)
        hasty.proxy.swallow_requests = False
        assert is_unavailable(result), method
        assert took < HASTE + LATER
        hasty.works_again()


def test_a_network_slower_than_the_deadline_is_given_up_at_the_deadline(hasty: FaultyStore) -> None:
    """Not each of several round trips has so much time, but all of them together."""
    for method in chosen(hasty, 1):
        hasty.prepare()
        hasty.proxy.delay = HASTE * 0.7
        _, took = hasty.call(method)
        hasty.proxy.delay = 0
        assert took < HASTE + LATER, method
        hasty.works_again()


class TestMutants:
    """The harness detects a store with a deliberate defect."""

    def test_an_effect_that_is_doubled_is_found_out(self) -> None:
        with opened("redis", "sync", PATIENCE) as store:
            end_turn = store.store.end_turn

            def repeat_what_was_lost(*arguments: Any) -> Any:
                lost = store.proxy.lost
                result = end_turn(*arguments)
                return end_turn(*arguments) if store.proxy.lost > lost else result

            store.store.end_turn = repeat_what_was_lost

            with pytest.raises(AssertionError, match="another result"):
                lose_a_reply(store, "end_turn", 2)

    def test_half_an_effect_is_found_out(self) -> None:
        with opened("postgres", "sync", PATIENCE) as store:

            def store_one_by_one(messages: Any) -> None:
                lost = store.proxy.lost
                for message in messages:
                    if store.proxy.lost == lost:
                        store.store.store_message(message)

            store.store.store_messages = store_one_by_one

            with pytest.raises(AssertionError, match="another effect"):
                lose_a_reply(store, "store_messages", 1)

    def test_a_deadline_that_is_not_kept_is_found_out(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(globals(), "LATER", 0.1)
        with (
            opened("redis", "sync", HASTE + 0.5) as store,
            pytest.raises(AssertionError, match="not back at the deadline"),
        ):
            go_silent(store, "get", 1)

    def test_a_lock_that_is_never_released_is_detected(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with opened("redis", "sync", HASTE) as store:
            store.prepare()
            monkeypatch.setattr(store.beside, "_lock_timeout", 0.1)
            monkeypatch.setattr(store.store, "_save_and_release", lambda *arguments: None)
            monkeypatch.setattr(faulty_network, "WORKS_AGAIN", 1.0)
            monkeypatch.setattr(faulty_network, "LENIENCE", 0.0)
            with pytest.raises(AssertionError, match="until the store lets others write"):
                store.works_again()
