"""What the adapters share."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine.adapters._items import (
    as_async,
    decoded,
    encoded,
    finished,
    item_message,
    item_of,
    readable,
    require_session_id,
    retry_conflicts,
    retry_conflicts_sync,
    supported,
)
from jazzmine.core import MessageStore
from jazzmine.errors import ConflictError
from jazzmine.records.messages import MessageRole
from jazzmine.sync import MessageStore as SyncMessageStore

_TEXT = st.text(st.characters(exclude_categories=[])) | st.sampled_from(
    ["\x00", "\ud800", "\ud83d\ude00", "$bytes", "$text", "$tuple", "$pairs", "$ref"]
)
_KEYS = _TEXT | st.integers() | st.booleans() | st.none()
_SIMPLE = _TEXT | st.integers() | st.floats() | st.booleans() | st.none() | st.binary()
ITEMS = st.recursive(
    _SIMPLE,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(_KEYS, inner),
    max_leaves=20,
)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal, of equal types, and NaN at the same places."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        signs_equal = math.copysign(1, left) == math.copysign(1, right)
        return (math.isnan(left) and math.isnan(right)) or (left == right and signs_equal)
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@given(ITEMS)
def test_an_item_comes_back_equal(item: Any) -> None:
    text = encoded(item)

    assert same(decoded(text), item)
    text.encode()


@pytest.mark.parametrize("item", [2**70, -(2**64), math.nan, math.inf, -0.0, "a\x00b", b"\xff"])
def test_values_that_no_store_holds_come_back(item: object) -> None:
    assert same(decoded(encoded({"value": item})), {"value": item})


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


def test_a_message_holds_its_item_under_one_key() -> None:
    message = item_message(
        "toy",
        {"id": "m", "n": 2**70},
        conversation_id="c",
        user_id="u",
        role=MessageRole.TOOL,
        content="\ud800",
        metadata={"kept": 1},
        invoked_tools=["t"],
    )

    assert message.id != "m"
    assert message.metadata["kept"] == 1
    assert message.original_content == "\ufffd"
    assert item_of(message, "toy", None) == {"id": "m", "n": 2**70}
    assert item_of(message, "other", "nothing") == "nothing"


@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_session_id_is_a_value_error(missing: object) -> None:
    with pytest.raises(ValueError, match="missing"):
        require_session_id(missing)


def test_a_session_id_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="must be a str"):
        require_session_id(7)


async def test_a_sync_store_is_called_in_threads(tmp_path: Path) -> None:
    with SyncMessageStore.initialize(f"json:{tmp_path}/m.json") as store:
        assert await as_async(store).get_conversation_by_id("c") is None


async def test_an_async_store_is_used_as_it_is(tmp_path: Path) -> None:
    async with await MessageStore.initialize(f"json:{tmp_path}/m.json") as store:
        assert as_async(store) is store


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a MessageStore"):
        as_async("json:m.json")  # type: ignore[arg-type]


async def test_a_call_that_was_begun_ends_before_its_cancellation() -> None:
    started, may_end, ended = asyncio.Event(), asyncio.Event(), []

    async def write() -> None:
        started.set()
        await may_end.wait()
        ended.append(True)

    task = asyncio.create_task(finished(write()))
    await started.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended


async def test_an_error_of_a_finished_call_is_raised() -> None:
    async def fail() -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await finished(fail())


async def test_conflicts_are_tried_again() -> None:
    left = [ConflictError("first"), ConflictError("second")]

    def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    async def attempt_async() -> str:
        return attempt()

    assert await retry_conflicts(attempt_async) == "done"
    left.append(ConflictError("third"))
    assert retry_conflicts_sync(attempt) == "done"


async def test_conflicts_without_end_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jazzmine.adapters._items._RETRY_SECONDS", 0.01)

    async def attempt() -> None:
        raise ConflictError("again")

    with pytest.raises(ConflictError, match="again"):
        await retry_conflicts(attempt)


def test_a_framework_that_is_not_installed_is_named() -> None:
    with (
        pytest.raises(ImportError, match=r"pip install 'no-such-framework>=1.0,<2'"),
        supported("no-such-framework", "1.0", "2"),
    ):
        pass


@pytest.mark.parametrize(("oldest", "too_new"), [("999.1", "1000"), ("0.1", "1.2")])
def test_a_version_that_was_not_tested_is_refused(oldest: str, too_new: str) -> None:
    with (
        pytest.raises(ImportError, match="does not work with pydantic 2"),
        supported("pydantic", oldest, too_new),
    ):
        pass


def test_a_version_in_the_range_is_accepted() -> None:
    with supported("pydantic", "2.11", "3"):
        pass
