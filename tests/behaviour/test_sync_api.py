"""The sync API as a program calls it, and beside the async API on the same data."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from jazzmine.core.message_store import Message
from jazzmine.core.message_store import MessageStore as AsyncMessageStore
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import TurnCache, WorkingMemoryStore
from tests.behaviour.backends import Config
from tests.behaviour.memory_samples import busy
from tests.behaviour.samples import conversation, full_message, ids, message, messages


@pytest.fixture
def plain(config: Config) -> Iterator[MessageStore]:
    """A message store with one conversation, "c1"."""
    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation())
        yield store


def test_messages_are_iterated_over(plain: MessageStore) -> None:
    plain.store_messages(messages("m1", "m2", "m3"))

    assert ids(list(plain.iter_messages("c1", batch_size=2))) == ["m1", "m2", "m3"]


def test_an_iteration_may_be_left(plain: MessageStore) -> None:
    plain.store_messages(messages("m1", "m2", "m3"))

    for first in plain.iter_messages("c1", batch_size=1):
        assert first.id == "m1"
        break

    assert plain.delete_message("m2")


def test_threads_share_a_store(plain: MessageStore) -> None:
    names = [f"m{number}" for number in range(100)]
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(lambda name: plain.store_message(message(name)), names))

    assert {*ids(plain.get_messages_by_conversation_id("c1"))} == {*names}


def test_a_view_is_a_context_manager(plain: MessageStore) -> None:
    with plain.scoped(user_id="nobody") as view:
        assert view.get_conversation_by_id("c1") is None

    assert plain.get_conversation_by_id("c1") is not None


def test_threads_take_turns_in_blocks(memory_config: Config) -> None:
    def begin(turn: int) -> None:
        with store.locked("c1") as memory:
            memory.begin_turn(TurnCache(turn))

    with WorkingMemoryStore.initialize(memory_config) as store:
        before = store.save(busy("c1")).revision
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(begin, range(12)))
        after = store.get("c1")

    assert after is not None
    assert after.revision == before + 12


async def test_both_apis_are_open_on_the_same_data_at_once(config: Config) -> None:
    async with await AsyncMessageStore.initialize(config) as store:
        plain = await asyncio.to_thread(MessageStore.initialize, config)
        await store.store_turn(conversation=conversation(), messages=[full_message("m1")])
        said = await asyncio.to_thread(plain.get_message_by_id, "m1")
        assert isinstance(said, Message)
        await store.store_message(said)

        await asyncio.gather(
            *(store.store_message(message(f"ours{n}")) for n in range(8)),
            *(asyncio.to_thread(plain.store_message, message(f"theirs{n}")) for n in range(8)),
        )

        ours = await store.get_messages_by_conversation_id("c1")
        theirs = await asyncio.to_thread(plain.get_messages_by_conversation_id, "c1")
        await asyncio.to_thread(plain.close)
    assert len(ours) == 17
    assert ours == theirs
