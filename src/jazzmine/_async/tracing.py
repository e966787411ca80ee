"""Wraps the public methods of a store once, if the API of OpenTelemetry is installed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, TypeVar

from jazzmine.tracing import ActiveSpan, TracedMethod, is_available, traced_methods

__all__ = ["traced"]

AnyClass = TypeVar("AnyClass", bound=type)


def traced(scope: str) -> Callable[[AnyClass], AnyClass]:
    """Decorate a base class of stores: each call of a public method is one span.

    Without the package opentelemetry-api the class stays as it is.

    Args:
        scope: the name of the tracer.
    """

    def wrap(store_class: AnyClass) -> AnyClass:
        if is_available():
            for attribute, method in traced_methods(store_class, scope):
                setattr(store_class, attribute, _WRAPPERS.get(method.name, _call)(method))
        return store_class

    return wrap


def _call(method: TracedMethod) -> Callable[..., Any]:
    function = method.function

    @wraps(function)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        tracer = method.tracer()
        if tracer is None:
            return await function(self, *args, **kwargs)
        with ActiveSpan(method.start(tracer, self, args, kwargs)) as span:
            result = await function(self, *args, **kwargs)
            method.count(span, result)
            return result

    return call


def _block(method: TracedMethod) -> Callable[..., Any]:
    """Wrap a method that returns a context manager; its block is in the span."""
    function = method.function

    @asynccontextmanager
    async def block(tracer: Any, self: Any, args: Any, kwargs: Any) -> AsyncIterator[Any]:
        with ActiveSpan(method.start(tracer, self, args, kwargs)):
            async with function(self, *args, **kwargs) as value:
                yield value

    @wraps(function)
    def enter(self: Any, *args: Any, **kwargs: Any) -> Any:
        tracer = method.tracer()
        if tracer is None:
            return function(self, *args, **kwargs)
        return block(tracer, self, args, kwargs)

    return enter


def _iteration(method: TracedMethod) -> Callable[..., Any]:
    """Wrap a method that returns an iterator.

    The span is the current one only while the store reads, because between two items the
    caller's code runs, which may never ask for another one.
    """
    function = method.function

    async def items(
        tracer: Any, iterator: Any, self: Any, args: Any, kwargs: Any
    ) -> AsyncIterator[Any]:
        span = method.start(tracer, self, args, kwargs)
        count = 0
        try:
            while True:
                with ActiveSpan(span, ends=False):
                    try:
                        item = await iterator.__anext__()
                    except StopAsyncIteration:
                        break
                count += 1
                yield item
        finally:
            method.count(span, count)
            span.end()
            await iterator.aclose()

    @wraps(function)
    def iterate(self: Any, *args: Any, **kwargs: Any) -> Any:
        tracer = method.tracer()
        iterator = function(self, *args, **kwargs)
        return iterator if tracer is None else items(tracer, iterator, self, args, kwargs)

    return iterate


# All other methods return when they are done.
_WRAPPERS = {"locked": _block, "iter_messages": _iteration}
