"""The values that the state machine draws: few ids and times, so that they repeat often."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from hypothesis import strategies as st

from jazzmine import MessageRole, TraceFilter, TurnTrace
from tests.behaviour import samples
from tests.behaviour.samples import llm_call, tool_trace

CONVERSATIONS = ["c1", "c2", "c3"]
MESSAGES = [f"m{number}" for number in range(1, 9)]
TRACES = [f"t{number}" for number in range(1, 9)]
LOST = "lost"
USERS = ["u1", "u2"]
AGENTS = ["a1", "a2"]
TIMES = [-1, 0, 1, 86_400_000]
COUNTS = [0, 1, 2, 3, 5]
INTENTS = ["book", "cancel"]
RESULTS = [None, True, 1, 1.0, "1", {"a": "b"}, {"a": "b", "c": "d"}]

# The first value of each is drawn most often, so that equal values occur.
conversation_ids = st.sampled_from([*CONVERSATIONS, *CONVERSATIONS, LOST])
times = st.just(0) | st.sampled_from(TIMES)
message_ids = st.sampled_from([*MESSAGES, LOST])
strays = st.sampled_from([False] * 5 + [True])
trace_ids = st.sampled_from(TRACES)
user_ids = st.sampled_from(USERS)
agent_ids = st.just("a1") | st.sampled_from(AGENTS)
counts = st.sampled_from(COUNTS)
texts = st.sampled_from(["a", "b"])
roles = st.just(MessageRole.USER) | st.sampled_from(MessageRole)

tags = st.sampled_from([1, True, 1.0, "1", {"a": [None]}, None])
conversations = st.builds(
    samples.conversation,
    id=st.sampled_from(CONVERSATIONS),
    user_id=user_ids,
    agent_id=agent_ids,
    title=st.sampled_from(["", "a"]),
    last_updated_at=times,
    metadata=st.just({}) | st.dictionaries(st.sampled_from("xy"), tags, max_size=2),
)
messages = st.builds(
    samples.message,
    id=st.sampled_from(MESSAGES),
    conversation_id=conversation_ids,
    user_id=user_ids,
    role=roles,
    original_content=texts,
    timestamp=times,
    is_flagged=st.booleans(),
)


def _trace(number: int, **fields: Any) -> TurnTrace:
    """Return a trace whose numbers depend on one number, which is faster than drawing each."""
    calls = [
        llm_call(
            model=model,
            prompt_tokens=number,
            total_tokens=tokens,
            cached_prompt_tokens=number % 3,
            cache_write_tokens=tokens % 2,
            reasoning_tokens=number // 6,
            cost_usd=None if tokens == 1 else number / 8,
            latency_ms=7 - tokens,
        )
        for model, tokens in [("big", number % 3), ("small", number % 4), ("big", 2)]
    ]
    return samples.trace(
        turn_number=number % 3,
        total_latency_ms=number,
        total_prompt_tokens=number,
        total_completion_tokens=number % 2,
        total_tokens=number % 5,
        llm_calls=calls[: number % 4],
        tool_traces=[tool_trace(final_data=RESULTS[number % len(RESULTS)], success=number > 3)],
        errors=["no such train"][: number % 2],
        detected_intent=INTENTS[number % 2],
        total_energy_kwh=number / 4,
        total_co2_g=number / 2,
        **fields,
    )


traces = st.builds(
    _trace,
    number=st.integers(0, 12),
    message_id=message_ids,
    id=trace_ids,
    conversation_id=conversation_ids,
    user_id=user_ids,
    agent_id=agent_ids,
    started_at_ms=times,
)
conditions = st.sampled_from(
    [
        *({"agent_id": agent} for agent in AGENTS),
        *({"user_id": user} for user in USERS),
        *({"conversation_id": conversation} for conversation in CONVERSATIONS),
        *({"intent": intent} for intent in INTENTS),
        *({"started_from": time} for time in TIMES),
        *({"started_until": time} for time in TIMES),
        *({"min_total_tokens": count} for count in COUNTS),
        *({"min_latency_ms": count} for count in COUNTS),
        *({"has_errors": has} for has in (True, False)),
        *({"tool": {"final_data": result}} for result in RESULTS),
        {"tool": {"success": True, "error": None}},
        *({"llm_call": {"model": model}} for model in ("big", "small")),
        {"llm_call": {"model": "big", "total_tokens": 2.0, "success": True}},
    ]
)
filters = st.builds(
    lambda several: TraceFilter.model_validate(dict(ChainMap(*several))),
    st.lists(conditions, max_size=3),
)
limits = st.none() | counts
listings = st.sampled_from(
    [("get_conversations_by_user_id", user) for user in USERS]
    + [("get_conversations_by_agent_id", agent) for agent in AGENTS]
    + [("get_messages_by_conversation_id", conversation) for conversation in CONVERSATIONS]
    + [("get_messages_by_user_id", user) for user in USERS]
)
