"""Spans of OpenTelemetry: each call of a store is one, in a program that uses it.

Only the ids of conversations, numbers of records and names of error classes are recorded: no
other id, no content, and no text of an error, which may quote a value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

_API = "opentelemetry.trace"
_UNTRACED = nullcontext()


def call_span(
    store: Any,
    method: str,
    given: Mapping[str, Any],
    positional: Iterable[tuple[str, Any]] = (),
) -> AbstractContextManager[Any | None]:
    """Return the span of a call, a context manager in which the spans of drivers nest below it.

    Its value is None if the program has set no tracer provider.

    Args:
        store: the store that is called.
        method: the name of the method.
        given: the arguments by their names; they may be of any type.
        positional: more of them.
    """
    if _API not in sys.modules:  # nobody can have set a tracer provider
        return _UNTRACED
    api = import_module(_API)
    provider = api.get_tracer_provider()
    if isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)):
        return _UNTRACED
    attributes = dict(_attributes({**dict(positional), **given}))
    attributes["db.system.name"] = store.system_name
    return _active(_tracer(provider, store.scope), f"jazzmine.{method}", attributes)


def count_records(span: Any, unit: str, result: object) -> None:
    """Record on the span of a call how many records it has returned or deleted.

    Args:
        span: the span.
        unit: what the result counts, such as "messages"; "" if it counts nothing.
        result: the result of the call.
    """
    if hasattr(result, "erased_at"):
        for erased in ("conversations", "messages", "traces"):
            span.set_attribute(f"jazzmine.{erased}", getattr(result, erased))
    elif unit:
        span.set_attribute(f"jazzmine.{unit}", _number(result))


@lru_cache(maxsize=8)
def _tracer(provider: Any, scope: str) -> Any:
    return provider.get_tracer(scope, version("jazzmine"))


@contextmanager
def _active(tracer: Any, name: str, attributes: Mapping[str, Any]) -> Iterator[Any]:
    """Make a span the current one for a block; OpenTelemetry itself records no cancellation."""
    api = import_module(_API)
    span = tracer.start_span(name, attributes=attributes)
    token = import_module("opentelemetry.context").attach(api.set_span_in_context(span))
    try:
        yield span
    except BaseException as error:
        kind = type(error)
        prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        span.set_attribute("error.type", prefix + kind.__qualname__)
        span.set_status(api.StatusCode.ERROR)
        raise
    finally:
        # FastAPI runs the two halves of a dependency in different contexts, and OpenTelemetry's
        # own `detach` would log that with a traceback.
        with suppress(ValueError):
            token.var.reset(token)
        span.end()


def _attributes(given: Mapping[str, Any]) -> Iterator[tuple[str, str | int]]:
    """Yield the attributes of a span from the arguments of its call."""
    messages = given.get("messages")
    # An iterator can be read only once, by the method.
    messages = messages if isinstance(messages, (list, tuple, Set)) else None
    of_messages = [getattr(message, "conversation_id", None) for message in messages or ()]
    owners = [given.get("conversation_id"), getattr(given.get("conversation"), "id", None)]
    for name in ("message", "trace", "where", "wm"):
        owners.append(getattr(given.get(name), "conversation_id", None))
    if of_messages and of_messages.count(of_messages[0]) == len(of_messages):
        owners.append(of_messages[0])
    if conversation_id := next(filter(_is_text, owners), None):
        yield "gen_ai.conversation.id", conversation_id
    for name in ("conversation", "message", "trace"):
        if given.get(name) is not None:
            yield f"jazzmine.{name}s", 1
    if messages is not None:
        yield "jazzmine.messages", len(messages)


def _is_text(value: object) -> bool:
    """Return whether a value is a string that an exporter can encode."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(result: object) -> int:
    if isinstance(result, (list, dict)):
        return len(result)
    return int(result) if isinstance(result, int) else int(result is not None)
