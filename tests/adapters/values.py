"""Values that a framework may store, and how to compare them."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

__all__ = ["ITEMS", "same"]

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
