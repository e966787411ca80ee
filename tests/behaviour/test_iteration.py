"""Iterations yield each message once, whatever is changed meanwhile, or all records of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.records.base import RecordKind
from tests.behaviour.apis import Api, take
from tests.behaviour.backends import Config
from tests.behaviour.samples import NOW, conversation, ids, message, messages, trace

CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "added": (
        lambda store: store.store_turn(
            conversation=conversation("c2"),
            messages=[
                message("earlier", timestamp=NOW - 1),
                message("elsewhere", conversation_id="c2"),
                message("later", timestamp=NOW + 1),
            ],
        ),
        "m1 m2 m3 later",
    ),
    "changed": (
        lambda store: store.store_message(message("m1", original_content="other")),
        "m1 m2 m3",
    ),
    "deleted before": (lambda store: store.delete_message("m1"), "m1 m2 m3"),
    "the last one deleted": (lambda store: store.delete_message("m2"), "m1 m2 m3"),
    "all that came deleted": (
        lambda store: store.append_messages("c1", messages("m3"), replace_after=None),
        "m1 m2 m3",
    ),
}


@pytest.mark.smoke
@pytest.mark.each_value
@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("batch_size", [1, 2])
async def test_iteration_yields_each_message_once_while_another_store_changes_them(
    api: Api,
    chat: MessageStore,
    config: Config,
    change: Callable[[Any], Any],
    expected: str,
    batch_size: int,
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=batch_size)
    first = await take(iterator, 2)

    async with await api.MessageStore.initialize(config) as other:
        await change(other)

    rest = [m async for m in iterator]
    assert ids(first + rest) == expected.split()


async def test_iteration_ends_when_the_conversation_is_deleted_meanwhile(
    chat: MessageStore,
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    iterator = chat.iter_messages("c1", batch_size=1)
    await take(iterator, 1)

    await chat.delete_conversation("c1")

    rest = [m async for m in iterator]
    assert len(rest) <= 1


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
