"""A conversation as a log: messages are appended, replaced and copied in one step."""

from __future__ import annotations

import pytest

from jazzmine import ConflictError, IntegrityError
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
)
from tests.behaviour.samples import trace as trace_of

TEXT = "\0 \\u0000 é \U0001f600 {} $ 'quoted' \\ %s"


async def stored(store: MessageStore) -> list[str]:
    return ids(await store.get_messages_by_conversation_id("c1"))


# Appends


@pytest.mark.smoke
async def test_a_turn_that_is_delivered_twice_and_answered_differently_conflicts(
    chat: MessageStore,
) -> None:
    question, answer = message("m1"), message("m2", original_content="Green tea.")
    await chat.append_messages("c1", [question, answer], expected_last=None)
    other = message("m2", original_content="Black tea.")

    with pytest.raises(ConflictError) as caught:
        await chat.append_messages("c1", [question, other], expected_last=None)
    assert caught.value.newest_id == "m2"

    with pytest.raises(IntegrityError, match="another content"):
        await chat.append_messages("c1", [question, other])
    await chat.store_conversation(conversation("c2"))
    taken = message("m2", conversation_id="c2")
    with pytest.raises(IntegrityError, match="another content"):
        await chat.append_messages("c2", [taken], expected_last="m1")
    assert await chat.get_messages_by_conversation_id("c1") == [question, answer]


async def test_what_does_not_belong_together_is_not_stored(chat: MessageStore) -> None:
    new = message("m1")
    for trace, named in (
        (trace_of("m0"), "not appended"),
        (trace_of("m1", conversation_id="c2"), "of conversation 'c2'"),
    ):
        with pytest.raises(ValueError, match=named):
            await chat.append_messages("c1", [new], trace=trace)
    assert await chat.append_messages("unknown", []) == []
    await chat.store_conversation(conversation("c2"))
    with pytest.raises(IntegrityError, match="cannot be in conversation"):
        await chat.store_messages([new, message("m1", conversation_id="c2")])
    assert await chat.count_messages(["c1", "c2"]) == {"c1": 0, "c2": 0}
    await chat.store_message(new)
    with pytest.raises(IntegrityError):
        await chat.store_turn_trace(trace_of("m1", conversation_id="c2"))
    assert await chat.get_turn_trace_by_message_id("m1") is None


async def test_the_same_content_may_be_written_differently(chat: MessageStore) -> None:
    nested = {"bb": 1, "a": {"d": 2, "c": [3]}, "zero": -0.0}
    given = message("m1", sentiment_score=-0.0, metadata=nested)
    await chat.append_messages("c1", [given])

    again = given.model_copy(update={"metadata": {"zero": -0.0, "a": {"c": [3], "d": 2}, "bb": 1}})

    assert await chat.append_messages("c1", [given]) == [given]
    assert await chat.append_messages("c1", [again]) == [given]


@pytest.mark.smoke
@pytest.mark.parametrize("count", [1, 40])
async def test_an_appended_message_has_every_character_and_number(
    chat: MessageStore, count: int
) -> None:
    given = [
        message(f"{TEXT}{i}", original_content=TEXT, metadata={"ä $.x": [2**63 - 1, 1e300, TEXT]})
        for i in range(count)
    ]

    appended = await chat.append_messages("c1", given, expected_last=None)

    assert appended == given
    assert await chat.append_messages("c1", given) == given
    assert await chat.get_messages_by_conversation_id("c1") == given


@pytest.mark.smoke
async def test_an_answer_is_regenerated_in_one_step(chat: MessageStore) -> None:
    await chat.append_messages("c1", messages("q1", "a1"), trace=trace_of("a1", id="t1"))

    appended = await chat.append_messages(
        "c1", messages("a2", timestamp=NOW + 5), trace=trace_of("a2", id="t2"), replace_after="q1"
    )
    appended += await chat.append_messages("c1", messages("q2", timestamp=NOW - 5))

    assert [one.timestamp for one in appended] == [NOW + 5] * 2
    assert await chat.get_conversation_by_id("c1") == conversation(last_updated_at=NOW + 5)
    assert await stored(chat) == ["q1", "a2", "q2"]
    assert await chat.get_turn_trace_by_id("t1") is None
    assert await chat.get_turn_trace_by_id("t2") == trace_of("a2", id="t2")


@pytest.mark.smoke
async def test_of_regenerations_at_once_one_takes_place(api: Api, chat: MessageStore) -> None:
    await chat.store_messages(messages("q1", "a0"))
    names = ["a1", "a2", "a3", "a4"]

    outcomes = await api.settle(
        *(
            lambda name=name: chat.append_messages(
                "c1", [message(name)], replace_after="q1", expected_last="a0"
            )
            for name in names
        )
    )

    done = [
        name
        for name, outcome in zip(names, outcomes, strict=True)
        if not isinstance(outcome, ConflictError)
    ]
    assert len(done) == 1
    assert await stored(chat) == ["q1", *done]


# Conversations


async def test_of_several_created_at_once_one_is_stored_and_all_return_it(
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

    created = await store.get_conversation_by_id("c1")
    assert created is not None
    assert created.title in titles
    assert found == [created] * 12


async def test_strange_ids_and_texts_are_copied(chat: MessageStore) -> None:
    strange = full_message(TEXT, TEXT, metadata={"$a.b": [2**63 - 1, TEXT, {"": None}]})
    await chat.append_messages("c1", [strange])
    await chat.store_turn_trace(full_trace(TEXT, TEXT, id=TEXT))

    new_ids = await chat.fork_conversation("c1", conversation("c2"), until=TEXT)

    moved = {"id": new_ids[TEXT], "conversation_id": "c2"}
    [found] = await chat.get_messages_by_conversation_id("c2")
    assert found == strange.model_copy(update=moved)
    [copy] = await chat.get_turn_traces_by_conversation_id("c2")
    moved = {"id": copy.id, "message_id": found.id, "conversation_id": "c2", "copied_from": TEXT}
    assert copy == full_trace(TEXT, TEXT).model_copy(update=moved)


@pytest.mark.smoke
async def test_a_repeated_append_stores_the_trace_that_the_first_one_lacked(
    chat: MessageStore,
) -> None:
    await chat.append_messages("c1", messages("q", "a"))
    for name in ("first", "second"):
        appended = await chat.append_messages(
            "c1", messages("q", "a"), trace=trace_of("a", id=name)
        )
        assert ids(appended) == ["q", "a"]

    assert ids(await chat.get_turn_traces_by_conversation_id("c1")) == ["first"]


@pytest.mark.smoke
async def test_a_fork_is_repeated_up_to_the_same_message_only(chat: MessageStore) -> None:
    await chat.append_messages("c1", messages("m1", "m2", "m3"))
    branch = conversation("c2")
    new_ids = await chat.fork_conversation("c1", branch, until="m2")

    assert await chat.fork_conversation("c1", branch, until="m2") == new_ids
    for until in ("m1", "m3"):
        with pytest.raises(ConflictError, match="new one"):
            await chat.fork_conversation("c1", branch, until=until)
    assert await chat.count_messages(["c2"]) == {"c2": 2}
