"""Spans of OpenTelemetry: which span a call of a store is, and what its attributes say.

Only the ids of conversations, numbers of records and names of error classes are recorded: no
other id, no content, and no text of an error, which may quote a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from importlib.metadata import version
from inspect import unwrap
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue

__all__ = ["TRACING_API", "ActiveSpan", "SpanMaker"]

TRACING_API = "opentelemetry.trace"
"""The module that a program has imported if its calls may have spans."""


class SpanMaker:
    """Makes the spans of the calls of one public method.

    Args:
        method: the method as it is written.
        counts: what its result counts, or the number of records in its arguments if empty.
    """

    def __init__(self, method: Callable[..., Any], counts: str = "") -> None:
        # `initialize` is a class method: the store is known only when it is opened.
        name = {"open": "initialize"}.get(method.__name__, method.__name__)
        self._span_name = f"jazzmine.{name}"
        self._counted = f"jazzmine.{counts}" if counts else ""
        code = unwrap(method).__code__
        self._parameters = code.co_varnames[1 : code.co_argcount]

    def tracer(self, store: Any) -> Tracer | None:
        """Return the tracer of a store's spans, or None if the application has set no provider."""
        return _tracers.current(store.scope) if TRACING_API in sys.modules else None

    def start(
        self, tracer: Tracer, store: Any, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> Span:
        """Start the span of a call.

        Args:
            tracer: what `tracer()` has returned.
            store: the store that is called.
            args: the positional arguments of the call.
            kwargs: its arguments by name.
        """
        given = {**dict(zip(self._parameters, args, strict=False)), **kwargs}
        attributes = dict(_attributes(given))
        attributes["db.system.name"] = store.system_name
        return tracer.start_span(self._span_name, attributes=attributes)

    def count(self, span: Span, result: object) -> None:
        """Record on a span how many records a call has returned or deleted."""
        if not span.is_recording():
            return
        if hasattr(result, "erased_at"):
            for unit in ("conversations", "messages", "traces"):
                span.set_attribute(f"jazzmine.{unit}", getattr(result, unit))
        elif self._counted:
            span.set_attribute(self._counted, _number(result))


class _Tracers:
    """The tracers by scope, from the provider that the application has set."""

    def __init__(self) -> None:
        self._provider: object = None
        self._tracers: dict[str, Tracer | None] = {}

    def current(self, scope: str) -> Tracer | None:
        from opentelemetry import trace

        provider = trace.get_tracer_provider()
        if provider is not self._provider:
            self._provider, self._tracers = provider, {}
        if scope not in self._tracers:
            is_set = not isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider))
            tracer = provider.get_tracer(scope, version("jazzmine")) if is_set else None
            self._tracers[scope] = tracer
        return self._tracers[scope]


_tracers = _Tracers()


class ActiveSpan:
    """A context manager in which a span is the current one, so that those of drivers nest below.

    OpenTelemetry's own `use_span` does not record cancellations.

    Args:
        span: the span; it gets the class of an error that is raised in the block.
        ends: whether the span ends with the block.
    """

    __slots__ = ("_ends", "_span", "_token")

    def __init__(self, span: Span, *, ends: bool = True) -> None:
        self._span = span
        self._ends = ends

    def __enter__(self) -> Span:
        from opentelemetry import context, trace

        self._token = context.attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from opentelemetry import context, trace

        context.detach(self._token)
        # A generator that is closed early has not failed.
        if kind is not None and kind is not GeneratorExit:
            prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            self._span.set_attribute("error.type", prefix + kind.__qualname__)
            self._span.set_status(trace.StatusCode.ERROR)
        if self._ends:
            self._span.end()


def _attributes(given: Mapping[str, Any]) -> Iterator[tuple[str, AttributeValue]]:
    """Yield what the arguments of a call say, by their names; they may be of any type."""
    messages = given.get("messages")
    # An iterator can be read only once, by the method.
    messages = messages if isinstance(messages, (list, tuple, Set)) else None
    conversation_id = next(filter(_is_text, _conversation_ids(given, messages or ())), None)
    if conversation_id is not None:
        yield "gen_ai.conversation.id", conversation_id
    for name in ("conversation", "message", "trace"):
        if given.get(name) is not None:
            yield f"jazzmine.{name}s", 1
    if messages is not None:
        yield "jazzmine.messages", len(messages)


def _conversation_ids(given: Mapping[str, Any], messages: Collection[Any]) -> Iterator[Any]:
    yield given.get("conversation_id")
    yield getattr(given.get("conversation"), "id", None)
    for name in ("message", "trace", "where", "wm"):
        yield getattr(given.get(name), "conversation_id", None)
    ids = [getattr(message, "conversation_id", None) for message in messages]
    if ids and ids.count(ids[0]) == len(ids):
        yield ids[0]


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
