"""Items as JSON text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from jazzmine.adapters._encoding import decoded, encoded, readable
from tests.adapters.values import ITEMS, same


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
