"""Every public name of jazzmine 0.1.42 works: import paths, and names of parameters.

Intended differences are in `DIFFERENCES`, each with its reason.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends.predecessor_names import names_of_source

DIFFERENCES = {
    "InMemoryWorkingMemoryStore.active_count": "async, as on Redis, where the server is queried",
    "RedisWorkingMemoryStore.active_count": "async; 0.1.42 refused it",
    "RedisWorkingMemoryStore.KEY_PREFIX": "an id with braces needs another key than a prefix makes",
    "RedisWorkingMemoryStore.LOCK_PREFIX": "the same",
    "RedisWorkingMemoryStore.LOCK_TIMEOUT": "each store has its own: the parameter `lock_timeout`",
}

Names = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def names() -> Names:
    return names_of_source()


def classes(names: Names) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for module, found in names.items():
        for name, members in found["classes"].items():
            yield module, name, members


def imported(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def parameters_of(module: str, owner: str, method: str) -> dict[str, inspect.Parameter]:
    """The parameters of our method, or of our constructor, without `self`."""
    found = imported(module, owner)
    function = found if method == "__init__" else getattr(found, method)
    parameters = dict(inspect.signature(function).parameters)
    parameters.pop("self", None)
    return parameters


def test_the_names_of_a_module_are_where_they_were(names: Names) -> None:
    for module, found in names.items():
        ours = importlib.import_module(module)
        assert [imported(module, name).__name__ for name in found["names"]] == found["names"]
        assert set(ours.__all__) >= set(found["names"]), module


def test_a_class_has_the_members_that_it_had(names: Names) -> None:
    for module, owner, members in classes(names):
        ours = imported(module, owner)
        attributes = [
            name for name in members.get("attributes", ()) if f"{owner}.{name}" not in DIFFERENCES
        ]

        assert [name for name in attributes if not hasattr(ours, name)] == [], owner
        if "enum" in members:
            assert members["enum"].items() <= {one.name: one.value for one in ours}.items()


def test_the_methods_of_a_class_take_and_return_what_they_did(names: Names) -> None:
    count = 0
    for module, owner, members in classes(names):
        for method, was in members.get("methods", {}).items():
            if f"{owner}.{method}" not in DIFFERENCES:
                require_same(module, owner, method, was)
                count += 1
    assert count > 100


def require_same(module: str, owner: str, method: str, was: dict[str, Any]) -> None:
    were, ours = was["parameters"], parameters_of(module, owner, method)
    by_position = [name for name, one in ours.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    new = [ours[name] for name in ours if name not in were]
    function = inspect.unwrap(getattr(imported(module, owner), method))
    what = f"{owner}.{method}"

    assert ours.keys() >= were.keys(), what
    # The records of a message store never accepted fields by position.
    assert not by_position or by_position[: len(were)] == list(were), what
    optional = [name for name, has_default in were.items() if has_default]
    assert [name for name in optional if ours[name].default is inspect.Parameter.empty] == [], what
    assert [p for p in new if p.default is p.empty and p.kind is not p.VAR_KEYWORD] == [], what
    assert inspect.iscoroutinefunction(function) == was["waits"], what
