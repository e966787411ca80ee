"""A simple call of every method of a message store, made from its signature.

A call returns the result of the method: in the async API an awaitable.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from jazzmine import TraceFilter
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import conversation, message, trace

# Methods that return an iterator check their arguments when called, and have their own entries.
ITERATION = "iter_messages"

# The value of each required parameter, by its name.
VALUES: dict[str, Callable[[], Any]] = {
    "after": lambda: None,
    "agent_id": lambda: "a1",
    "before": lambda: 0,
    "by": lambda: "agent",
    "conversation": conversation,
    "conversation_id": lambda: "c1",
    "conversation_ids": lambda: ["c1"],
    "from_user_id": lambda: "u1",
    "max_tokens": lambda: 100,
    "message": message,
    "message_id": lambda: "m1",
    "message_ids": lambda: ["m1"],
    "messages": lambda: [message("m9")],
    "n": lambda: 3,
    "new_conversation": lambda: conversation("c9"),
    "query": lambda: "tea",
    "to_user_id": lambda: "u9",
    "trace": trace,
    "trace_id": lambda: "t1",
    "user_id": lambda: "u1",
    "where": TraceFilter,
}

# What a call needs besides.
OTHERS: dict[str, Callable[[], dict[str, Any]]] = {
    "edit_conversation": lambda: {"title": "another"},
    "edit_message": lambda: {"intent": "order"},
    "search_messages": lambda: {"limit": 0},
    "store_turn": lambda: {"conversation": conversation()},
}

# They reach no back end.
LOCAL = {"close", "initialize", "open", "require_open", "scoped"}

METHODS = {
    name: inspect.signature(method).parameters
    for name, method in inspect.getmembers(MessageStore, inspect.isfunction)
    if not name.startswith("_") and name not in LOCAL
}


def call(name: str, store: Any, **given: Any) -> Any:
    """Call a method with what it requires, and with given arguments."""
    arguments = {
        parameter.name: VALUES[parameter.name]()
        for parameter in METHODS[name].values()
        if parameter.name != "self"
        and parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
    }
    arguments.update(OTHERS.get(name, dict)())
    return getattr(store, name)(**{**arguments, **given})


def _with(name: str, parameter: str, store: Any, value: Any) -> Any:
    several = [*VALUES[parameter](), value] if parameter.endswith("_ids") else value
    return call(name, store, **{parameter: several})


def _each(wanted: Callable[[inspect.Parameter], bool]) -> dict[str, Callable[[Any, Any], Any]]:
    """Return a call for each parameter of a kind; search and iteration have tests of their own."""
    return {
        f"{name}-{parameter}": partial(_with, name, parameter)
        for name, parameters in METHODS.items()
        if name not in (ITERATION, "search_messages")
        for parameter, declared in parameters.items()
        if wanted(declared)
    }


CALLS: dict[str, Callable[[Any], Any]] = {
    name: partial(call, name) for name in METHODS if name != ITERATION
}
WITH_AN_ID = _each(lambda declared: declared.name.endswith(("_id", "_ids")))
AFTER = _each(lambda declared: declared.name == "after")
OPTIONAL_IDS = {
    **AFTER,
    **_each(lambda declared: declared.name in ("expected_last", "replace_after", "until")),
}
COUNTS = _each(lambda declared: declared.name in ("limit", "offset", "n", "max_tokens"))
