"""All records of a store, as programs that show or move a whole store read them."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.records.base import RecordKind
from tests.behaviour.apis import Api
from tests.behaviour.samples import NOW, conversation, ids, message, trace


async def all_of(api: Api, store: MessageStore, kind: RecordKind, size: int = 2) -> list[Any]:
    return [
        record
        async for _, batch in api.internal("maintenance").iter_records(store, [kind], size)
        for record in batch
    ]


@pytest.mark.each_value
@pytest.mark.smoke
async def test_records_come_in_the_order_in_which_their_ids_were_first_stored(
    api: Api,
    store: MessageStore,
) -> None:
    for number, name in enumerate(["c", "a", "b"]):
        await store.store_conversation(conversation(name, last_updated_at=NOW - number))
        await store.store_message(message(f"m{name}", conversation_id=name, timestamp=NOW - number))
        await store.store_turn_trace(
            trace(f"m{name}", conversation_id=name, started_at_ms=NOW - number)
        )
    await store.store_conversation(conversation("c", title="changed"))
    await store.store_message(message("mc", conversation_id="c", original_content="changed"))

    assert ids(await all_of(api, store, "conversations")) == ["c", "a", "b"]
    assert ids(await all_of(api, store, "messages")) == ["mc", "ma", "mb"]
    assert ids(await all_of(api, store, "traces")) == [f"trace-of-m{name}" for name in "cab"]
