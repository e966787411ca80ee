"""Spans of OpenTelemetry: which span a call of a store is, and what its attributes say.

Only the ids of conversations, numbers of records and names of error classes are recorded: no
other id, no content, and no text of an error, which may quote a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from importlib.metadata import version
from importlib.util import find_spec
from inspect import getattr_static, isfunction, unwrap
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue

__all__ = ["ActiveSpan", "TracedMethod", "is_available", "traced_methods"]

_API = "opentelemetry.trace"

# What the result of a method counts; other records are counted in its arguments.
_COUNTED = {
    "conversations": (
        "delete_conversation",
        "get_conversation_by_id",
        "get_conversations_by_agent_id",
        "get_conversations_by_user_id",
        "prune_conversations",
    ),
    "messages": (
        "delete_message",
        "flag_message",
        "fork_conversation",
        "get_context_window",
        "get_immediate_context",
        "get_message_by_id",
        "get_messages_by_conversation_id",
        "get_messages_by_ids",
        "get_messages_by_user_id",
        "iter_messages",
        "pop_message",
        "rewind_conversation",
    ),
    "traces": (
        "find_turn_traces",
        "get_turn_trace_by_id",
        "get_turn_trace_by_message_id",
        "get_turn_traces_by_agent_id",
        "get_turn_traces_by_conversation_id",
    ),
    "summaries": ("summarize_usage",),
    "working_memories": ("active_count", "delete", "erase_user", "get"),
}
_UNITS = {method: f"jazzmine.{unit}" for unit, methods in _COUNTED.items() for method in methods}


def is_available() -> bool:
    """Return whether the package opentelemetry-api is installed, without importing it."""
    try:
        return find_spec(_API) is not None
    except ModuleNotFoundError:
        return False


def traced_methods(store_class: type, scope: str) -> Iterator[tuple[str, TracedMethod]]:
    """Return the methods of a class that are to be traced, with the names of their attributes.

    Args:
        store_class: a base class of stores.
        scope: the name of the tracer, which OpenTelemetry calls the instrumentation scope.
    """
    tracers = _Tracers(scope)
    # The class of a store that is being opened is known only when `initialize` has chosen it.
    yield "_opened", TracedMethod(tracers, "initialize", getattr_static(store_class, "_opened"))
    for name in dir(store_class):
        method = getattr_static(store_class, name)
        if isfunction(method) and not name.startswith("_"):
            yield name, TracedMethod(tracers, name, method)


class _Tracers:
    """The tracer of a scope, from the provider that the application has set."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._current: tuple[object, Tracer | None] = (None, None)

    def current(self) -> Tracer | None:
        """Return the tracer, or None if the application has set no provider."""
        # Only a program that has imported the API can have set one.
        if _API not in sys.modules:
            return None
        from opentelemetry import trace

        provider = trace.get_tracer_provider()
        known, tracer = self._current
        if provider is not known:
            is_set = not isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider))
            tracer = provider.get_tracer(self._scope, version("jazzmine")) if is_set else None
            self._current = provider, tracer
        return tracer


class TracedMethod:
    """A public method of a store, and the spans of its calls.

    Attributes:
        name: its public name.
        function: the method as it is written.
        tracer: returns the tracer to use, or None if calls are not to be traced.
    """

    def __init__(self, tracers: _Tracers, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        self.tracer: Callable[[], Tracer | None] = tracers.current
        code = unwrap(function).__code__
        self._parameters = code.co_varnames[1 : code.co_argcount]
        self._span_name = f"jazzmine.{name}"

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
        if store._system_name:
            attributes["db.system.name"] = store._system_name
        return tracer.start_span(self._span_name, attributes=attributes)

    def count(self, span: Span, result: object) -> None:
        """Record on a span how many records a call has returned or deleted."""
        if not span.is_recording():
            return
        if hasattr(result, "erased_at"):
            for unit in ("conversations", "messages", "traces"):
                span.set_attribute(f"jazzmine.{unit}", getattr(result, unit))
        elif self.name in _UNITS:
            span.set_attribute(_UNITS[self.name], _number(result))


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
