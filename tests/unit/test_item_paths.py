"""A path sorts as its namespace and key do, and no other item has it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jazzmine.records.item_paths import (
    after_items,
    end_of,
    namespace_path,
    path_of,
    split_namespace,
    split_path,
)

parts = st.text(st.sampled_from("\0\x01\x02\x03ab\uffff\U0010ffff"), min_size=1, max_size=3)
namespaces = st.lists(parts, min_size=1, max_size=3).map(tuple)
places = st.tuples(namespaces, parts)


@given(places, places)
def test_paths_sort_as_places_do(
    one: tuple[tuple[str, ...], str], other: tuple[tuple[str, ...], str]
) -> None:
    assert (path_of(*one) < path_of(*other)) == (one < other)
    assert (path_of(*one) == path_of(*other)) == (one == other)


@given(places)
def test_a_path_is_split_again(place: tuple[tuple[str, ...], str]) -> None:
    assert split_path(path_of(*place)) == place
    assert split_namespace(namespace_path(place[0])) == place[0]
    assert "\0" not in path_of(*place)


@given(places, namespaces)
def test_a_range_has_what_is_below_a_namespace(
    place: tuple[tuple[str, ...], str], prefix: tuple[str, ...]
) -> None:
    begin = namespace_path(prefix)
    path = path_of(*place)

    assert (begin <= path < end_of(begin)) == (place[0][: len(prefix)] == prefix)
    assert (begin <= path < after_items(begin)) == (place[0] == prefix)
