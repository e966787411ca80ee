"""Items as JSON text, messages that hold them, and what a person reads of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from jazzmine.adapters._encoding import decoded, encoded, readable
from jazzmine.adapters._items import Described, call_text, item_message, item_of, role_of
from jazzmine.records.messages import MessageRole
from tests.adapters.values import ITEMS, same


def test_a_message_holds_its_item_under_one_key() -> None:
    message = item_message(
        "toy",
        {"id": "m", "n": 2**70},
        Described(MessageRole.TOOL, "\ud800", ["t\udfff"]),
        conversation_id="c",
        user_id="u",
        is_flagged=True,
    )

    assert message.id != "m"
    assert message.is_flagged
    assert (message.role, message.original_content) == (MessageRole.TOOL, "\ufffd")
    assert message.invoked_tools == ["t\ufffd"]
    assert item_of(message, "toy", None) == {"id": "m", "n": 2**70}
    assert item_of(message, "other", "nothing") == "nothing"


def test_a_message_that_calls_no_tool_says_so_by_none() -> None:
    described = Described(MessageRole.USER, "Hello")

    message = item_message("toy", {}, described, conversation_id="c", user_id="u")

    assert message.invoked_tools is None


@pytest.mark.parametrize(
    ("name", "role"),
    [("user", MessageRole.USER), ("developer", MessageRole.SYSTEM), ("critic", None), (7, None)],
)
def test_a_role_is_found_by_its_name(name: object, role: MessageRole | None) -> None:
    assert role_of(name) is role


@pytest.mark.parametrize(
    ("arguments", "text"),
    [('{"a": 1}', 'f({"a": 1})'), ({"a": 1}, 'f({"a":1})'), (None, "f()"), ({}, "f()")],
)
def test_a_call_is_read_with_its_arguments(arguments: object, text: str) -> None:
    assert call_text("f", arguments) == text


@given(ITEMS)
def test_an_item_comes_back_equal(item: Any) -> None:
    text = encoded(item)

    assert same(decoded(text), item)
    text.encode()


def test_an_item_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(TypeError, match="type object"):
        encoded({"value": object()})


def test_an_item_too_deep_to_be_read_back_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(250):
        deep = [deep]

    with pytest.raises(ValueError, match="200 levels"):
        encoded(deep)


def test_a_cyclic_item_is_refused() -> None:
    item: list[Any] = []
    item.append(item)

    with pytest.raises(ValueError, match="200 levels"):
        encoded(item)


def test_readable_text_holds_no_lone_surrogate() -> None:
    assert readable("a\ud800b") == "a\ufffdb"
    assert readable("\ud83d\ude00") == "\U0001f600"
