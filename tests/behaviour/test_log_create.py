"""A conversation is got, or else created, in one step."""

from __future__ import annotations

from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation


async def test_of_several_at_once_one_is_stored_and_all_return_it(
    api: Api, config: Config, store: MessageStore
) -> None:
    titles = [f"title {number}" for number in range(6)]
    async with await api.MessageStore.initialize(config) as other:
        found = await api.gather(
            *(
                lambda one=one, title=title: one.get_or_create_conversation(
                    conversation(title=title)
                )
                for title in titles
                for one in (store, other)
            )
        )

    stored = await store.get_conversation_by_id("c1")
    assert stored is not None
    assert stored.title in titles
    assert found == [stored] * 12
