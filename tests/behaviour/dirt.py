"""Invalid values, with the value that each is read as, and random data that contains them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from jazzmine.records.types import MAX_DEPTH

__all__ = ["FIELDS", "Pair", "free_form"]

NAN, INFINITY, BIG = float("nan"), float("inf"), 2**64
LONE, REPLACED = "half of a \ud83d", "half of a \ufffd"
MAX_INT = 2**63 - 1

Pair = tuple[Any, Any]
"""A stored value, and the value that it is read as."""

_CLEAN: list[Pair] = [(value, value) for value in (None, True, 0, -1.5, "", "text", "ü\n")]

# The invalid values that jazzmine 0.1 could store in each back end.
_DIRTY: dict[str, list[Pair]] = {
    "json": [(NAN, None), (-INFINITY, None), (BIG, str(BIG)), (-BIG, str(-BIG)), (LONE, REPLACED)],
    "postgres": [(BIG, str(BIG)), (-BIG, str(-BIG)), (10**400, str(10**400))],
    "mongodb": [(NAN, None), (INFINITY, None), (-INFINITY, None)],
}
_DIRTY_KEYS: dict[str, list[tuple[str, str]]] = {
    "json": [("a\0b", "a\ufffdb"), (LONE, REPLACED)],
    "postgres": [],
    "mongodb": [],
}

# The path of a typed field, with such a pair.
FIELDS: dict[str, list[tuple[str, Pair]]] = {
    "json": [
        ("user_id", ("", "unknown")),
        ("agent_id", (LONE, REPLACED)),
        ("total_energy_kwh", (NAN, 0.0)),
        ("total_co2_g", (INFINITY, 0.0)),
        ("ended_at_ms", (BIG, MAX_INT)),
        ("total_tokens", (-BIG, -MAX_INT - 1)),
        ("detected_intent", (LONE, REPLACED)),
        ("errors.1", (LONE, REPLACED)),
        ("llm_calls.0.latency_ms", (BIG, MAX_INT)),
        ("tool_traces.0.peak_memory_bytes", (BIG, MAX_INT)),
        ("tool_traces.0.generation_attempts.0.parse_error", (LONE, REPLACED)),
        ("emission_records.0.co2_g", (NAN, 0.0)),
    ],
    "postgres": [
        ("user_id", ("", "unknown")),
        ("total_energy_kwh", ("NaN", 0.0)),
        ("total_co2_g", ("-Infinity", 0.0)),
        ("llm_calls.0.latency_ms", (BIG, MAX_INT)),
        ("tool_traces.0.peak_memory_bytes", (-BIG, -MAX_INT - 1)),
    ],
    "mongodb": [
        ("user_id", ("", "unknown")),
        ("total_energy_kwh", (NAN, 0.0)),
        ("sentiment_score", (-INFINITY, 0.0)),
        ("emission_records.0.co2_g", (NAN, 0.0)),
    ],
}

# What another program may write as JSON.
for _name in ("sqlite", "toy"):
    _DIRTY[_name], _DIRTY_KEYS[_name], FIELDS[_name] = (
        _DIRTY["json"],
        _DIRTY_KEYS["json"],
        FIELDS["json"],
    )


def _list(pairs: list[Pair]) -> Pair:
    return [raw for raw, _ in pairs], [read for _, read in pairs]


def _object(pairs: list[tuple[tuple[str, str], Pair]]) -> Pair:
    return {key[0]: value[0] for key, value in pairs}, {key[1]: value[1] for key, value in pairs}


def free_form(storage: str) -> st.SearchStrategy[Pair]:
    """Free-form data of any shape, with invalid values at any depth."""
    keys = st.sampled_from([("a", "a"), ("b", "b"), ("$c.d", "$c.d"), *_DIRTY_KEYS[storage]])
    pairs = st.recursive(
        st.sampled_from(_CLEAN + _DIRTY[storage]),
        lambda inner: (
            st.lists(inner, max_size=3).map(_list)
            | st.lists(st.tuples(keys, inner), max_size=3, unique_by=lambda p: p[0][1]).map(_object)
        ),
        max_leaves=8,
    )
    return pairs.flatmap(lambda pair: st.integers(0, 20).map(lambda depth: _deeper(pair, depth)))


def _deeper(pair: Pair, depth: int) -> Pair:
    assert depth + 8 < MAX_DEPTH
    raw, read = pair
    for _ in range(depth):
        raw, read = [raw], [read]
    return raw, read
