"""Every public name of jazzmine 0.1.42 works: import paths, parameter names and defaults.

Intended differences are in `DIFFERENCES`, each with its reason.
"""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from enum import Enum
from typing import Any

import pytest

from tests.backends.predecessor_names import ENUM, FILE, MADE, REQUIRED, names_of_source

DIFFERENCES = {
    "InMemoryWorkingMemoryStore.active_count": "async, as on Redis, where the server is queried",
    "RedisWorkingMemoryStore.active_count": "async; 0.1.42 refused it",
    "RedisWorkingMemoryStore.KEY_PREFIX": "an id with braces needs another key than a prefix makes",
    "RedisWorkingMemoryStore.LOCK_PREFIX": "the same",
    "RedisWorkingMemoryStore.LOCK_TIMEOUT": "each store has its own: the parameter `lock_timeout`",
}

NAMES: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
EXPORTS = [
    pytest.param(module, name, id=f"{module}.{name}")
    for module, found in NAMES.items()
    for name in found["names"]
]
CLASSES = [
    (module, name, members)
    for module, found in NAMES.items()
    for name, members in found["classes"].items()
]
ENUMS = [
    pytest.param(module, name, members["enum"], id=name)
    for module, name, members in CLASSES
    if "enum" in members
]
ATTRIBUTES = [
    pytest.param(module, name, attribute, id=f"{name}.{attribute}")
    for module, name, members in CLASSES
    for attribute in members.get("attributes", ())
    if f"{name}.{attribute}" not in DIFFERENCES
]
METHODS = [
    pytest.param(module, name, method, expected, id=f"{name}.{method}")
    for module, name, members in CLASSES
    for method, expected in members.get("methods", {}).items()
    if f"{name}.{method}" not in DIFFERENCES
]
each_method = pytest.mark.parametrize(("module", "owner", "method", "expected"), METHODS)


def imported(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def parameters_of(module: str, owner: str, method: str) -> dict[str, inspect.Parameter]:
    """The parameters of our method, or of our constructor, without `self`."""
    found = imported(module, owner)
    function = found if method == "__init__" else getattr(found, method)
    parameters = dict(inspect.signature(function).parameters)
    parameters.pop("self", None)
    return parameters


def test_the_names_are_those_of_the_published_version() -> None:
    assert names_of_source() == NAMES


@pytest.mark.parametrize(("module", "name"), EXPORTS)
def test_a_name_is_imported_from_where_it_was(module: str, name: str) -> None:
    assert imported(module, name).__name__ == name


@pytest.mark.parametrize("module", sorted(NAMES))
def test_a_module_exports_what_it_defines(module: str) -> None:
    found = importlib.import_module(module)

    assert set(found.__all__) >= set(NAMES[module]["names"])


@pytest.mark.parametrize(("module", "name", "members"), ENUMS)
def test_an_enum_has_the_members_that_it_had(
    module: str, name: str, members: dict[str, str]
) -> None:
    assert members.items() <= {one.name: one.value for one in imported(module, name)}.items()


@pytest.mark.parametrize(("module", "owner", "attribute"), ATTRIBUTES)
def test_a_property_is_still_there(module: str, owner: str, attribute: str) -> None:
    assert hasattr(imported(module, owner), attribute)


@each_method
def test_parameters_have_the_names_that_they_had(
    module: str, owner: str, method: str, expected: dict[str, Any]
) -> None:
    assert parameters_of(module, owner, method).keys() >= expected["parameters"].keys()


@each_method
def test_parameters_by_position_have_the_order_that_they_had(
    module: str, owner: str, method: str, expected: dict[str, Any]
) -> None:
    by_position = [
        name
        for name, parameter in parameters_of(module, owner, method).items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    # The records of a message store never accepted fields by position.
    were = list(expected["parameters"]) if by_position else []

    assert by_position[: len(were)] == were


@each_method
def test_parameters_have_the_defaults_that_they_had(
    module: str, owner: str, method: str, expected: dict[str, Any]
) -> None:
    are = parameters_of(module, owner, method)

    assert [
        name for name, was in expected["parameters"].items() if not is_same(was, are[name])
    ] == []


def is_same(was: Any, parameter: inspect.Parameter) -> bool:
    default = parameter.default
    if was == REQUIRED:
        return True  # Parameters that were required are still accepted.
    if was == MADE:
        return default is not inspect.Parameter.empty
    if was == ENUM:
        return isinstance(default, Enum)
    return bool(default == was[0] and type(default) is type(was[0]))


@each_method
def test_new_parameters_may_be_left_out(
    module: str, owner: str, method: str, expected: dict[str, Any]
) -> None:
    new = [
        p
        for n, p in parameters_of(module, owner, method).items()
        if n not in expected["parameters"]
    ]

    assert [p.name for p in new if p.default is p.empty and p.kind is not p.VAR_KEYWORD] == []


@each_method
def test_async_methods_are_still_async(
    module: str, owner: str, method: str, expected: dict[str, Any]
) -> None:
    function = inspect.unwrap(getattr(imported(module, owner), method))

    assert inspect.iscoroutinefunction(function) == expected["waits"]


def test_no_module_of_the_predecessor_loads_a_driver() -> None:
    code = f"import sys, {', '.join(NAMES)}\nprint(*sys.modules)"
    command = [sys.executable, "-I", "-c", code]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    assert {"psycopg", "psycopg_pool", "pymongo", "redis"}.isdisjoint(loaded)
