"""A user's records are erased everywhere, and nobody else's; old conversations are deleted."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from jazzmine import Erasure, IntegrityError, TraceFilter
from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.samples import (
    NOW,
    conversation,
    full_message,
    full_trace,
    ids,
    message,
    messages,
    trace,
)
from tests.behaviour.stored import everything

ANN, BOB = "ann-9f3c", "bob-71aa"
ANNS_WORDS, BOBS_WORDS = "the secret of Ann", "the words of Bob"


def counts(erasure: Erasure) -> tuple[int, int, int]:
    return erasure.conversations, erasure.messages, erasure.traces


async def fill(store: MessageStore) -> None:
    """Have two users in each other's conversations, and traces that name the other one."""
    for user, words, other, others_words in (
        (ANN, ANNS_WORDS, BOB, BOBS_WORDS),
        (BOB, BOBS_WORDS, ANN, ANNS_WORDS),
    ):
        owner = f"of-{user[:3]}"
        await store.store_conversation(conversation(owner, user_id=user, title=words))
        mine = full_message(f"{owner}-1", words, conversation_id=owner, user_id=user)
        his = full_message(f"{owner}-2", others_words, conversation_id=owner, user_id=other)
        # The second of Bob's messages stands in the conversation of Ann's, and has her trace.
        last = message(f"{owner}-3", conversation_id=owner, user_id=BOB, original_content="bye")
        await store.store_messages([mine, his, last])
        for said, named in ((mine, user), (his, other), (last, ANN)):
            text = ANNS_WORDS if named == ANN else BOBS_WORDS
            traced = full_trace(said.id, text, conversation_id=owner, user_id=named)
            await store.store_turn_trace(traced)


@pytest.mark.smoke
async def test_nothing_of_the_user_is_left(config: Config, store: MessageStore) -> None:
    await fill(store)
    assert ANN.encode() in everything(config)
    assert ANNS_WORDS.encode() in everything(config)

    erasure = await store.erase_user(ANN)

    assert ANN.encode() not in everything(config)
    assert ANNS_WORDS.encode() not in everything(config)
    # Ann's conversation with three messages; in Bob's one message of hers, and her two traces.
    assert counts(erasure) == (1, 4, 5)


async def test_more_records_than_one_transaction_deletes_are_erased(store: MessageStore) -> None:
    for number in range(3):
        await store.store_conversation(conversation(f"c{number}", user_id=ANN))
    await store.store_conversation(conversation("other", user_id=BOB))
    many = [
        message(f"{owner}-{number}", conversation_id=owner, user_id=user)
        for owner, user in (("c0", BOB), ("c1", ANN), ("other", ANN))
        for number in range(150)
    ]
    await store.store_messages(many)

    assert counts(await store.erase_user(ANN)) == (3, 450, 0)
    assert await store.get_messages_by_user_id(BOB) == []
    assert ids(await store.get_conversations_by_user_id(BOB)) == ["other"]


@pytest.mark.smoke
async def test_others_write_during_an_erasure(
    api: Api, config: Config, store: MessageStore
) -> None:
    await fill(store)
    given = [message(f"m{number}", conversation_id="of-bob", user_id=BOB) for number in range(20)]

    async with await api.MessageStore.initialize(config) as other:
        await api.gather(
            lambda: store.erase_user(ANN),
            *(lambda one=one: other.append_messages("of-bob", [one]) for one in given),
        )

    found = await store.get_messages_by_conversation_id("of-bob")
    assert sorted(ids(found)) == sorted(["of-bob-1", "of-bob-3", *ids(given)])


async def test_an_erasure_ends_beside_a_user_who_goes_on_writing(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    newest = await chat.backend.newest_sequence()
    await chat.store_conversation(conversation("c2"))

    while any(await chat.backend.erase("u1", 100, newest)):
        pass

    assert ids(await chat.get_conversations()) == ["c2"]
    assert (await chat.erase_user("u1")).conversations == 1


# Retention


@pytest.mark.each_value
@pytest.mark.parametrize("before", [-(10**30), 10**30, 0, -5])
async def test_any_time_is_a_bound(store: MessageStore, before: int) -> None:
    await store.store_conversation(conversation("c1", last_updated_at=-7))
    await store.store_conversation(conversation("c2"))

    pruned = await store.prune_conversations(before=before)

    assert pruned == sum(time_ < before for time_ in (-7, NOW))


async def test_a_conversation_that_goes_on_meanwhile_is_pruned_whole_or_stays(
    api: Api, config: Config, store: MessageStore
) -> None:
    names = [f"c{number}" for number in range(12)]
    for name in names:
        await store.store_conversation(conversation(name, last_updated_at=NOW - 9))
        old = messages(f"{name}-1", conversation_id=name, timestamp=NOW - 9)
        await store.store_messages(old)

    async def go_on(other: MessageStore, name: str) -> bool:
        try:
            await other.append_messages(name, [message(f"{name}-2", conversation_id=name)])
        except IntegrityError:
            return False
        return True

    async with await api.MessageStore.initialize(config) as other:
        outcomes: list[Any] = await api.gather(
            lambda: store.prune_conversations(before=NOW),
            *(lambda name=name: go_on(other, name) for name in names),
        )

    pruned, went_on = outcomes[0], outcomes[1:]
    assert pruned == went_on.count(False)
    for name, alive in zip(names, went_on, strict=True):
        found = ids(await store.get_messages_by_conversation_id(name))
        assert found == ([f"{name}-1", f"{name}-2"] if alive else [])


async def fill_long(store: MessageStore, *names: str) -> list[str]:
    """Store old conversations with more records than one step deletes; return the first's ids."""
    for number, name in enumerate(names):
        await store.store_conversation(conversation(name, last_updated_at=number))
        given = [message(f"{name}-{n:03}", conversation_id=name, timestamp=n) for n in range(LONG)]
        await store.store_messages(given)
        await store.store_turn_trace(trace(given[-1].id, conversation_id=name))
    return [f"{names[0]}-{n:03}" for n in range(LONG)]


LONG = 250


@pytest.mark.smoke
async def test_a_long_conversation_is_pruned_in_steps_its_oldest_messages_first(
    config: Config, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = await fill_long(store, "c1", "c2")
    prune, left = store.backend.prune, [len(given)]

    async def step(*args: Any) -> Any:
        result = await prune(*args)
        found = ids(await store.get_messages_by_conversation_id("c1"))
        assert found == given[len(given) - len(found) :]
        assert (await store.get_conversation_by_id("c1") is None) <= (found == [])
        left.append(len(found))
        return result

    monkeypatch.setattr(store.backend, "prune", step)
    assert await store.prune_conversations(before=LONG, limit=1) == 1

    if config["storage"] != "json":
        assert all(before - after <= 200 for before, after in pairwise(left))
    assert await store.get_conversation_by_id("c1") is None
    assert len(await store.get_messages_by_conversation_id("c2")) == LONG
    assert ids(await store.find_turn_traces(TraceFilter())) == ids([trace("c2-249")])


async def test_a_conversation_that_goes_on_between_two_steps_keeps_the_rest(
    api: Api, config: Config, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = await fill_long(store, "c1")
    prune, later = store.backend.prune, message("later", conversation_id="c1")

    async def step(*args: Any) -> Any:
        result = await prune(*args)
        async with await api.MessageStore.initialize(config) as other:
            with suppress(IntegrityError):
                await other.append_messages("c1", [later], expected_last=given[-1])
        return result

    monkeypatch.setattr(store.backend, "prune", step)
    pruned = await store.prune_conversations(before=NOW)

    found = ids(await store.get_messages_by_conversation_id("c1"))
    kept = found[:-1]
    assert found == ([] if pruned else [*given[len(given) - len(kept) :], "later"])
    assert pruned == (config["storage"] == "json")  # which writes the whole file
