"""The records of two users, entangled in each other's conversations, and calls about them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from jazzmine import JazzmineError, TraceFilter
from tests.behaviour.calls import ITERATION, METHODS, call
from tests.behaviour.samples import conversation, message, trace


async def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a call, or the type and the text of its error."""
    try:
        return await call(*args)
    except JazzmineError as error:
        return type(error), str(error)


# The store is scoped to "u1", and "u2" is the stranger.
STRANGER = "u2"
CONVERSATIONS = [conversation("c1"), conversation("c2", user_id=STRANGER)]
MESSAGES = [
    message("m1"),
    message("m2", user_id=STRANGER),
    message("m3", conversation_id="c2", user_id=STRANGER, original_content="tea in secret"),
    message("m4", conversation_id="c2"),
]
TRACES = [
    trace("m1", id="t1"),
    trace("m3", id="t3", conversation_id="c2", user_id=STRANGER),
    trace("m4", id="t4", conversation_id="c2"),
]


class Ids(NamedTuple):
    """The ids that a call is about."""

    conversation: str
    message: str
    trace: str

    def hidden(self, text: str) -> str:
        """Return a text without these ids."""
        return re.sub("|".join(self), "ID", text)


OTHERS = [Ids("c2", "m3", "t3"), Ids("c2", "m4", "t4")]
ABSENT = Ids("c8", "m8", "t8")


def _values(ids: Ids) -> dict[str, list[Any]]:
    """Return what each parameter of a method is given, by its name, to be about these records."""
    elsewhere: dict[str, Any] = {"conversation_id": ids.conversation}
    again = message(ids.message, **elsewhere)
    traced = trace(ids.message, id=ids.trace, **elsewhere)
    return {
        "conversation_id": [ids.conversation],
        "conversation_ids": [[ids.conversation]],
        "message_id": [ids.message],
        "message_ids": [[ids.message]],
        "trace_id": [ids.trace],
        **{name: [ids.message] for name in ("after", "until", "expected_last", "replace_after")},
        "message": [message("new", **elsewhere), again],
        "messages": [[message("new"), message("other", **elsewhere)], [again]],
        "trace": [traced, trace(ids.message), trace("m2", **elsewhere)],
        "where": [
            TraceFilter(**elsewhere),
            TraceFilter(**elsewhere, tool={"success": True}),
        ],
    }


# The records after which these methods continue are no messages.
_AFTER = {"find_turn_traces": "trace", "get_conversations": "conversation"}


def _call(method: str, parameter: str, number: int, store: Any, ids: Ids) -> Any:
    given = {parameter: _values(ids)[parameter][number]}
    kind = next((_AFTER[one] for one in _AFTER if method.startswith(one)), "")
    if parameter == "after" and kind:
        given = {"after": getattr(ids, kind)}
    if method == "append_messages" and parameter in ("conversation_id", "messages"):
        moved = {"conversation_id": ids.conversation}
        said = given.get("messages", [message("new")])
        given = {**moved, "messages": [one.model_copy(update=moved) for one in said]}
    if method == "store_turn":
        given["conversation"] = conversation("c9")
    return call(method, store, **given)


# Each has the result that it would have if nothing were stored with the ids.
ABOUT: dict[str, Callable[[Any, Ids], Any]] = {
    f"{method}-{parameter}-{number}": partial(_call, method, parameter, number)
    for method, parameters in METHODS.items()
    if method not in (ITERATION, "search_messages")
    for parameter, values in _values(ABSENT).items()
    if parameter in parameters
    and not (parameter == "where" and "conversations" in method)  # a condition on metadata
    and (method, parameter) != ("append_messages", "trace")  # it is of one of the messages
    for number in range(len(values))
}
