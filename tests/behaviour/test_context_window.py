"""The window holds the newest messages that fit, and no tool's answer without its call."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from jazzmine import MessageRole
from jazzmine.core.message_store import Message, MessageStore
from jazzmine.deadline import CALL_BEGAN
from tests.behaviour.backends import Backend
from tests.behaviour.samples import NOW, conversation, ids, message
from tests.behaviour.window_model import window_of

ROLES = {
    "U": MessageRole.USER,
    "A": MessageRole.ASSISTANT,
    "C": MessageRole.COLLEAGUE_ASSISTANT,
    "S": MessageRole.SYSTEM,
    "T": MessageRole.TOOL,
}


def log(*said: str) -> list[Message]:
    """Messages of one conversation: a role's letter, the cost, calls, and "!" for a flag.

    The calls that an assistant makes, or the one that a tool answers, are letters after a colon.
    """
    return [_said(number, one) for number, one in enumerate(said)]


def _said(number: int, said: str) -> Message:
    said_plainly, _, calls = said.rstrip("!").partition(":")
    metadata: dict[str, Any] = {}
    if calls and said[0] == "T":
        metadata["tool_call_id"] = calls
    elif calls:
        metadata["tool_calls"] = [{"id": one, "name": "look_up"} for one in calls]
    return message(
        f"{number}{said}",
        role=ROLES[said[0]],
        original_content="x" * int(said_plainly[1:]),
        is_flagged=said.endswith("!"),
        timestamp=NOW + number // 3,
        metadata=metadata,
    )


def cost(counted: Message) -> int:
    return len(counted.original_content)


def as_said(found: list[Message]) -> list[str]:
    return [one.id.lstrip("0123456789") for one in found]


async def window(store: MessageStore, max_tokens: int) -> list[str]:
    """What the window of the conversation "c1" holds, as it was said."""
    return as_said(await store.get_context_window("c1", max_tokens=max_tokens, count_tokens=cost))


async def test_metadata_of_another_form_names_no_calls(chat: MessageStore) -> None:
    for number, calls in enumerate([[1, {"id": 2}, {}], "a", {"id": "a"}, None]):
        odd = message(f"m{number}", role=ROLES["A"], metadata={"tool_calls": calls})
        answer = message(f"t{number}", role=ROLES["T"], metadata={"tool_call_id": number})
        await chat.store_messages([odd, answer])
    assert len(await chat.get_context_window("c1", max_tokens=10_000)) == 8


# Counting


@pytest.mark.parametrize(
    ("original", "enhanced", "tokens"),
    [
        ("", "", 0),
        ("a", "", 1),
        ("abcd", "", 1),
        ("abcde", "", 2),
        ("éé", "", 1),
        ("\U0001f600a", "", 2),
        ("a long text that is not counted", "abcde", 2),
    ],
)
async def test_a_message_costs_a_quarter_of_the_bytes_that_a_model_reads(
    chat: MessageStore, original: str, enhanced: str, tokens: int
) -> None:
    await chat.store_message(message("m0", original_content="x" * 40))
    await chat.store_message(message("m1", original_content=original, enhanced_message=enhanced))

    assert ids(await chat.get_context_window("c1", max_tokens=tokens + 4 + 13)) == ["m1"]
    assert ids(await chat.get_context_window("c1", max_tokens=tokens + 4 + 14)) == ["m0", "m1"]
    assert ids(await chat.get_context_window("c1", max_tokens=tokens + 3)) == []


async def test_the_calls_of_a_message_cost_what_their_json_does(chat: MessageStore) -> None:
    calls = [{"id": "a", "name": "write", "arguments": {"text": "ä" * 4000}}]
    await chat.store_message(message("m0", role=ROLES["A"], metadata={"tool_calls": calls}))
    await chat.store_message(message("m1", role=ROLES["T"], metadata={"tool_call_id": "a"}))

    assert await chat.get_context_window("c1", max_tokens=2000) == []
    assert len(await chat.get_context_window("c1", max_tokens=2100)) == 2


async def test_the_caller_may_count(chat: MessageStore) -> None:
    await chat.store_messages(log("U1", "A9", "U1"))
    counted: list[str] = []

    def one_each(counting: Message) -> int:
        counted.append(counting.id)
        return 1

    found = await chat.get_context_window("c1", max_tokens=2, count_tokens=one_each)

    assert ids(found) == ["1A9", "2U1"]
    assert counted == ["2U1", "1A9", "0U1"]


@pytest.mark.parametrize(
    ("tokens", "error"),
    [(1.5, TypeError), ("1", TypeError), (None, TypeError), (True, TypeError), (-1, ValueError)],
)
async def test_tokens_are_counted_as_a_positive_integer(
    chat: MessageStore, tokens: Any, error: type[Exception]
) -> None:
    await chat.store_message(message())

    with pytest.raises(error, match="count_tokens"):
        await chat.get_context_window("c1", max_tokens=9, count_tokens=lambda _: tokens)


# Pages


async def test_a_window_is_read_anew_when_a_page_s_last_message_is_deleted(
    chat: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chat.store_messages(log(*["U1"] * 60))
    read, pages = chat.backend.list_newest, 0

    async def read_and_lose(*args: Any, **options: Any) -> Any:
        nonlocal pages
        pages += 1
        if pages == 2:
            # Another worker rewinds between two pages.
            await chat.rewind_conversation("c1", after="9U1")
        return await read(*args, **options)

    monkeypatch.setattr(chat.backend, "list_newest", read_and_lose)

    assert await window(chat, 30) == ["U1"] * 10
    assert pages > 2


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(["U1"] * 300 + ["T1"], id="an answer without its call"),
        pytest.param(["A1!"] * 300 + ["T1", "U1"], id="flagged calls"),
        pytest.param(["U1!"] * 300 + ["U1"], id="flagged messages"),
        pytest.param(["U1"] + ["T1"] * 1000 + ["U1"], id="answers"),
        pytest.param(["U1", *["A1!", "T1"] * 500, "U1"], id="flagged calls with their answers"),
        pytest.param(["U1", *["U1!", "T1"] * 500, "S1"], id="flagged messages between answers"),
        pytest.param(["U1", "A1", *["T0"] * 100, "U1"], id="as many answers as there may be"),
        pytest.param(["U1", "A1", *["T0"] * 101, "U1"], id="one more"),
    ],
)
async def test_the_work_follows_the_window_and_not_the_conversation(
    chat: MessageStore, monkeypatch: pytest.MonkeyPatch, kinds: list[str]
) -> None:
    everything = log(*kinds)
    await chat.store_messages(everything)
    read, rows = chat.backend.list_newest, 0

    async def read_and_count(*args: Any, **options: Any) -> Any:
        nonlocal rows
        page = await read(*args, **options)
        rows += len(page)
        return page

    monkeypatch.setattr(chat.backend, "list_newest", read_and_count)
    found = await chat.get_context_window("c1", max_tokens=20, count_tokens=cost)

    assert found == window_of(everything, 20, cost)
    assert rows < 400


@pytest.mark.before_hooks
async def test_all_pages_of_a_window_have_one_deadline(
    chat: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chat.store_messages(log(*["U1"] * 700))
    beginnings: list[float | None] = []
    read = chat.backend.list_newest

    async def read_and_note(*args: Any, **options: Any) -> Any:
        beginnings.append(CALL_BEGAN.get())
        return await read(*args, **options)

    monkeypatch.setattr(chat.backend, "list_newest", read_and_note)

    assert len(await window(chat, 700)) == 700
    assert len(beginnings) > 1
    assert beginnings[0] is not None
    assert len(set(beginnings)) == 1


def random_log(draw: random.Random) -> list[Message]:
    """At most 30 messages, of which some are flagged, call tools or answer them."""
    calling = ["A1:a", "A1:ab", "A1:aa", "C2:b", "T1:a", "T1:b", "T2:a", "A1:a!", "T1:b!"]
    said = []
    for _ in range(draw.randrange(31)):
        plain = f"{draw.choice('UACSTTTA')}{draw.randrange(7)}{draw.choice(['', '', '!'])}"
        said.append(draw.choice([plain, draw.choice(calling)]))
    return log(*said)


def is_later(one: Message, message_id: str) -> bool:
    return int(re.match(r"\d+", one.id)[0]) > int(re.match(r"\d+", message_id)[0])  # type: ignore[index]


@pytest.mark.smoke
async def test_any_window_is_that_of_the_reference(backend: Backend, store: MessageStore) -> None:
    # Hypothesis would fail if another thread uses `random` meanwhile, as a driver's pool does.
    draw = random.Random(17)
    for _ in range(int(100 * backend.share) + 1):
        everything, max_tokens = random_log(draw), draw.randrange(41)
        await store.delete_conversation("c1")
        await store.store_conversation(conversation())
        await store.store_messages(everything)

        after = draw.choice([None, None, *ids(everything)])
        rest = [one for one in everything if after is None or is_later(one, after)]
        found = await store.get_context_window(
            "c1", max_tokens=max_tokens, count_tokens=cost, after=after
        )
        assert found == window_of(rest, max_tokens, cost), (ids(everything), max_tokens, after)
        context = await store.get_immediate_context("c1", max_tokens // 3)
        assert context == window_of(everything, max_tokens // 3, lambda _: 1)
