"""Methods refuse arguments that are not valid ids or numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import Conversation, Message, NotFoundError, TurnTrace
from jazzmine.core.message_store import MessageStore
from tests.behaviour.calls import AFTER, COUNTS, OPTIONAL_IDS, WITH_AN_ID
from tests.behaviour.samples import conversation, ids, message, trace

before_hooks = pytest.mark.before_hooks

Call = Callable[[Any, Any], Any]


def kind(value: object) -> str:
    """Return the name of a test case."""
    return type(value).__name__


WRONG_IDS: list[Any] = [{"$ne": None}, ["m1"], b"m1", 1, re.compile(".*"), "", "\ud800", "a\udcff"]

IDS: dict[str, Call] = {**WITH_AN_ID, **OPTIONAL_IDS}
with_after = pytest.mark.parametrize("call", AFTER.values(), ids=AFTER)
with_a_count = pytest.mark.parametrize("call", COUNTS.values(), ids=COUNTS)
wrong_count = pytest.mark.parametrize("wrong", ["1", 1.0, True], ids=repr)


def refusal(wrong: Any, name: str) -> AbstractContextManager[Any]:
    """Expect the error of an argument that is no id."""
    if isinstance(wrong, str):
        return pytest.raises(ValidationError, match="valid string" if wrong else "at least 1 char")
    return pytest.raises(TypeError, match=f"{name} must be a str, not {kind(wrong)}")


class Names(str, Enum):
    """An Enum of ids, as programs define them."""

    MESSAGE = "m1"
    CONVERSATION = "c1"


# Ids


@before_hooks
@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("wrong", [*WRONG_IDS, None], ids=ascii)
async def test_a_wrong_id_is_refused(store: MessageStore, name: str, wrong: Any) -> None:
    if wrong is None and name in OPTIONAL_IDS:
        return
    with refusal(wrong, "(ids?|after|expected_last|until)"):
        await IDS[name](store, wrong)


@before_hooks
@pytest.mark.parametrize("wrong", [*WRONG_IDS, None], ids=ascii)
async def test_a_wrong_id_to_iterate_over_is_refused_at_once(
    store: MessageStore, wrong: Any
) -> None:
    with refusal(wrong, "conversation_id"):
        store.iter_messages(wrong)


@with_after
async def test_starting_after_an_unknown_id_is_refused(store: MessageStore, call: Call) -> None:
    with pytest.raises(NotFoundError, match="lost") as caught:
        await call(store, "lost")
    assert isinstance(caught.value, KeyError)
    assert not str(caught.value).startswith("'")  # it reads as a sentence


@before_hooks
async def test_one_string_is_not_several_ids(store: MessageStore) -> None:
    with pytest.raises(TypeError, match="several ids"):
        await store.get_messages_by_ids("m1")


async def test_a_name_that_is_a_string_is_an_id(chat: MessageStore) -> None:
    await chat.store_turn(messages=[message(Names.MESSAGE)], trace=trace(Names.MESSAGE, id="t1"))

    assert ids(await chat.get_messages_by_ids([Names.MESSAGE])) == ["m1"]
    assert ids(await chat.get_messages_by_conversation_id(Names.CONVERSATION)) == ["m1"]
    assert await chat.get_turn_trace_by_message_id(Names.MESSAGE) is not None
    found = await chat.get_message_by_id(Names.MESSAGE)
    assert found is not None
    assert type(found.id) is str


# Numbers


@before_hooks
@with_a_count
@wrong_count
async def test_another_type_of_number_is_refused(
    store: MessageStore, call: Call, wrong: Any
) -> None:
    with pytest.raises(TypeError, match="must be an int, not "):
        await call(store, wrong)


@before_hooks
@wrong_count
async def test_another_type_of_time_or_function_is_refused(store: MessageStore, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"before must be an int \(ms since 1970, UTC\), not "):
        await store.prune_conversations(before=wrong)
    with pytest.raises(TypeError, match="count_tokens must be callable, not "):
        await store.get_context_window("c1", max_tokens=1, count_tokens=wrong)


@before_hooks
@with_a_count
async def test_a_negative_number_is_refused(store: MessageStore, call: Call) -> None:
    with pytest.raises(ValueError, match="must be 0 or more, not -1"):
        await call(store, -1)


@with_a_count
async def test_a_huge_number_is_as_good_as_no_limit(chat: MessageStore, call: Call) -> None:
    await chat.store_turn(messages=[message()], trace=trace())

    for huge in (2**63, 10**30):
        found = await call(chat, huge)
        assert (found if isinstance(found, int) else len(found)) in (0, 1)


@before_hooks
@pytest.mark.parametrize("wrong", ["1", 1.0, True, None, 0, -1], ids=repr)
async def test_a_wrong_size_of_batches_is_refused(store: MessageStore, wrong: Any) -> None:
    is_count = type(wrong) is int
    with pytest.raises(ValueError if is_count else TypeError, match="batch_size must be"):
        store.iter_messages("c1", batch_size=wrong)


@before_hooks
@pytest.mark.parametrize("wrong", [None, 1, 0, "yes", "", []], ids=repr)
async def test_a_flag_is_true_or_false(chat: MessageStore, wrong: Any) -> None:
    await chat.store_message(message())

    with pytest.raises(TypeError, match="flagged must be True or False"):
        await chat.flag_message("m1", wrong)

    assert await chat.get_message_by_id("m1") == message()


# Records


@before_hooks
@pytest.mark.parametrize(
    ("write", "expected"),
    [
        ("store_conversation", Conversation),
        ("update_conversation", Conversation),
        ("store_message", Message),
        ("update_message", Message),
        ("store_turn_trace", TurnTrace),
    ],
)
@pytest.mark.parametrize(
    "wrong", [None, {}, "m1", [message()], message(), conversation(), trace()], ids=kind
)
async def test_something_else_than_a_record_is_refused(
    store: MessageStore, write: str, expected: type[Any], wrong: Any
) -> None:
    if isinstance(wrong, expected):
        return
    with pytest.raises(TypeError, match=f"expected a {expected.__name__}, got a"):
        await getattr(store, write)(wrong)


@before_hooks
async def test_one_message_is_not_given_in_place_of_several(store: MessageStore) -> None:
    one: Any = message()
    expected = "expected a list of Message, got a Message"
    with pytest.raises(TypeError, match=expected):
        await store.store_messages(one)
    with pytest.raises(TypeError, match=expected):
        await store.append_messages(one.conversation_id, one)
    with pytest.raises(TypeError, match=expected):
        await store.store_turn(messages=one)


@before_hooks
@pytest.mark.parametrize(
    "wrong",
    [
        {"conversation": {"id": "c1"}},
        {"messages": [{"id": "m1"}]},
        {"messages": ["m1"]},
        {"trace": {"id": "t1"}},
        {"trace": message()},
    ],
    ids=str,
)
async def test_a_turn_of_something_else_than_records_is_refused(
    store: MessageStore, wrong: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="expected a"):
        await store.store_turn(**{"conversation": conversation(), **wrong})

    assert await store.get_conversations() == []


@before_hooks
async def test_an_order_is_oldest_or_newest(store: MessageStore) -> None:
    wrong: Any = "latest"
    with pytest.raises(ValueError, match="oldest"):
        await store.get_messages_by_conversation_id("c1", order=wrong)
