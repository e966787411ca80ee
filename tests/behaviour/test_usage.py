"""Usage is summed up by every key, most tokens first."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine.core.message_store import MessageStore, TraceFilter, UsageSummary
from tests.behaviour.samples import llm_call, trace
from tests.behaviour.writes import store_traces

DAY = 86_400_000


async def usage(store: MessageStore, by: Any, **conditions: Any) -> list[UsageSummary]:
    """Return the usage of the traces that match a filter."""
    return await store.summarize_usage(TraceFilter(**conditions), by=by)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
async def test_turns_are_grouped_by_the_day_in_utc(
    chat: MessageStore, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    await store_traces(
        chat,
        trace("m1", started_at_ms=-1, total_tokens=5),
        trace("m2", started_at_ms=0, total_tokens=4),
        trace("m3", started_at_ms=DAY - 1, total_tokens=4),
        trace("m4", started_at_ms=DAY, total_tokens=3),
        trace("m5", started_at_ms=1_709_251_199_999, total_tokens=2),
        trace("m6", started_at_ms=1_709_251_200_000, total_tokens=1),
    )

    found = await usage(chat, "day")

    assert [(group.key, group.turns) for group in found] == [
        ("1970-01-01", 2),
        ("1969-12-31", 1),
        ("1970-01-02", 1),
        ("2024-02-29", 1),
        ("2024-03-01", 1),
    ]


async def test_groups_with_most_tokens_come_first_and_equal_ones_by_key(
    chat: MessageStore,
) -> None:
    await store_traces(
        chat,
        trace("m1", total_tokens=5, agent_id="a"),
        trace("m2", total_tokens=5, agent_id="é"),
        trace("m3", total_tokens=5, agent_id="B"),
        trace("m4", total_tokens=5, agent_id="\U0001f686"),
        trace("m5", total_tokens=5, agent_id="\uffee"),
        trace("m6", total_tokens=5, agent_id="a b"),
        trace("m7", total_tokens=5, agent_id="ab"),
        trace("m8", total_tokens=9, agent_id="z"),
        trace("m9", total_tokens=0, agent_id="0"),
    )

    found = await usage(chat, "agent")

    in_order = ["z", "B", "a", "a b", "ab", "é", "\uffee", "\U0001f686", "0"]
    assert [group.key for group in found] == in_order


async def test_what_only_calls_have_is_summed_up_in_the_group_of_its_turn_or_model(
    chat: MessageStore,
) -> None:
    large = 2**61
    one = llm_call(cached_prompt_tokens=large, reasoning_tokens=1, cost_usd=0.5)
    other = llm_call(model="big", cached_prompt_tokens=large, cost_usd=0.25)
    await store_traces(
        chat,
        trace("m1", llm_calls=[one, other, one], agent_id="a"),
        trace("m2", llm_calls=[other], agent_id="b"),
        trace("m3", llm_calls=[llm_call(model="none")], agent_id="c"),
    )

    def details(group: UsageSummary) -> tuple[str, int, int, float]:
        cached = group.cached_prompt_tokens // large
        return group.key, cached, group.reasoning_tokens, group.cost_usd

    assert [details(group) for group in await usage(chat, "agent")] == [
        ("a", 3, 2, 1.25),
        ("b", 1, 0, 0.25),
        ("c", 0, 0, 0.0),
    ]
    assert [details(group) for group in await usage(chat, "model")] == [
        ("big", 2, 0, 0.5),
        ("none", 0, 0, 0.0),
        ("small", 2, 2, 1.0),
    ]


@pytest.mark.parametrize(
    "by", ["month", "", "agent_id", "AGENT", None, 1, ["agent"], {"$ne": 1}], ids=repr
)
async def test_usage_by_another_key_is_refused_with_the_possible_keys(
    store: MessageStore, by: Any
) -> None:
    with pytest.raises(ValueError, match="agent, user, conversation, intent, model, day"):
        await usage(store, by)
