"""Concurrent calls of one store, and of two stores on the same data, are independent."""

from __future__ import annotations

import pytest

from jazzmine import IntegrityError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.samples import ids, message, messages

pytestmark = pytest.mark.smoke


async def test_a_refused_write_does_not_fail_the_others_in_its_batch(
    api: Api,
    chat: MessageStore,
) -> None:
    calls = [message("m1"), message("lost", conversation_id="nowhere"), message("m2")]

    outcomes = await api.settle(*(lambda m=m: chat.store_message(m) for m in calls))

    assert [type(outcome) for outcome in outcomes] == [type(None), IntegrityError, type(None)]
    assert sorted(ids(await chat.get_messages_by_conversation_id("c1"))) == ["m1", "m2"]


async def test_a_reader_sees_all_of_a_batch_or_nothing_of_it(api: Api, chat: MessageStore) -> None:
    batches = [messages(*(f"{batch}{number}" for number in range(10))) for batch in "abcdef"]
    writes = [lambda batch=batch: chat.store_messages(batch) for batch in batches]
    reads = [lambda: chat.get_messages_by_conversation_id("c1")] * len(writes)

    mixed = [call for pair in zip(writes, reads, strict=True) for call in pair]
    outcomes = await api.gather(*mixed)

    seen = [len(outcome) for outcome in outcomes if outcome is not None]
    assert len(seen) == len(reads)
    assert [count % 10 for count in seen] == [0] * len(reads)


async def test_no_message_outlives_the_conversation_deleted_beside_it(
    api: Api, chat: MessageStore
) -> None:
    names = [f"m{number}" for number in range(10)]
    writes = [lambda m=m: chat.store_message(m) for m in messages(*names)]

    await api.settle(*writes[:5], lambda: chat.delete_conversation("c1"), *writes[5:])

    assert await chat.get_conversation_by_id("c1") is None
    assert await chat.get_messages_by_ids(names) == []
    assert await chat.get_messages_by_user_id("u1") == []
