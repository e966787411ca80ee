"""Which combinations of its parameters a test runs with.

A rule is checked with each value of each parameter, the others being the first of theirs. All
combinations together run with JAZZMINE_SOAK=1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.behaviour.apis import SYNC
from tests.behaviour.backends import Backend


def keep_needed(metafunc: pytest.Metafunc) -> None:
    """Leave out the cases of a test that check the same as others, before they are made.

    At most one parameter has another value than its first. The mark `every_combination` takes all
    combinations; `each_value` those of a back end, which is not counted. A variant of a back end
    runs the tests marked `smoke` or, if it needs no server, `variants`, in the async API; the sync
    API, which is generated, runs those marked `smoke` on any mechanism but the first; both with the
    first of their values. What is checked before hooks (`before_hooks`) needs one back end.
    """
    first = list(_first_values(metafunc))
    metafunc._calls[:] = [
        case
        for case in metafunc._calls
        if not _is_repeated(metafunc.definition, case.params, _further(case.params, first))
    ]


def _is_repeated(test: pytest.Item, params: Mapping[str, Any], further: set[str]) -> bool:
    on_first = "backend" not in further
    further = further - {"backend", "api"}
    if test.path.match("behaviour/*.py"):
        if test.get_closest_marker("before_hooks") and not on_first:
            return True
        is_sync = SYNC in params.values()
        variants = [one for one in params.values() if isinstance(one, Backend) and one.variant]
        if is_sync and variants:
            return True
        if variants or is_sync:
            is_enough = (is_sync and on_first) or test.get_closest_marker("smoke")
            if variants and all(backend.embedded for backend in variants):
                is_enough = is_enough or test.get_closest_marker("variants")
            return bool(further) or not is_enough
    if test.get_closest_marker("every_combination"):
        return False
    if test.get_closest_marker("each_value"):
        return len(further) > 1
    return len(further) + (not on_first) > 1


def _further(
    params: Mapping[str, Any], first_values: list[tuple[Sequence[str], Sequence[object]]]
) -> set[str]:
    """Return the parameters that have another value than their first; "backend" for a back end."""
    further = set()
    for names, first in first_values:
        if any(params[name] is not value for name, value in zip(names, first, strict=True)):
            is_backend = isinstance(first[0], Backend)
            further.add("backend" if is_backend else names[0])
    return further


def _first_values(metafunc: pytest.Metafunc) -> Iterator[tuple[Sequence[str], Sequence[object]]]:
    """Yield the names that are given together, and the first of their values."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        given, values = mark.args
        names = given.replace(" ", "").split(",") if isinstance(given, str) else given
        first: Any = next(iter(values))
        if hasattr(first, "marks"):  # a `pytest.param`
            yield names, first.values
        else:
            yield names, first if len(names) > 1 else (first,)
    for name, definitions in metafunc._arg2fixturedefs.items():
        if definitions[-1].params and name in metafunc._calls[0].params:
            yield (name,), (definitions[-1].params[0],)
