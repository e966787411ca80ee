"""The public methods of a store: each checks that the store is open, and is one span.

All statements of a call have one deadline, so it is noted here when the call began.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Callable
from contextlib import contextmanager
from functools import wraps
from time import monotonic
from typing import Any, TypeVar, cast

from jazzmine.deadline import CALL_BEGAN, SharedBeginning
from jazzmine.tracing import TRACING_API, ActiveSpan, SpanMaker

__all__ = ["block", "composed", "iteration", "operation"]

AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])


def operation(counts: str = "", *, needs_open: bool = True) -> Callable[[AnyMethod], AnyMethod]:
    """Decorate a public method that returns when it is done.

    Args:
        counts: what the result counts, for the span: "messages" for the attribute
            `jazzmine.messages`.
        needs_open: whether the store has to be open.
    """

    def decorate(method: AnyMethod) -> AnyMethod:
        spans = SpanMaker(method, counts)

        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            caller = CALL_BEGAN.get()
            try:
                if type(caller) is not SharedBeginning:
                    CALL_BEGAN.set(monotonic())
                # Most programs have no spans, and pay no call for them.
                tracer = spans.tracer(self) if TRACING_API in sys.modules else None
                if tracer is None:
                    if needs_open:
                        self.require_open()
                    return method(self, *args, **kwargs)
                with ActiveSpan(spans.start(tracer, self, args, kwargs)) as span:
                    if needs_open:
                        self.require_open()
                    result = method(self, *args, **kwargs)
                    spans.count(span, result)
                    return result
            finally:
                # Without a token: what a loop that has ended leaves is closed in another context.
                CALL_BEGAN.set(caller)

        return cast("AnyMethod", call)

    return decorate


def composed(method: AnyMethod) -> AnyMethod:
    """Decorate a public method of a view, which calls public methods of its store.

    Each of these is a span, and all of them have one deadline.
    """

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        caller = CALL_BEGAN.get()
        try:
            CALL_BEGAN.set(SharedBeginning(monotonic()))
            self.require_open()
            return method(self, *args, **kwargs)
        finally:
            CALL_BEGAN.set(caller)

    return cast("AnyMethod", call)


def block(method: AnyMethod) -> AnyMethod:
    """Decorate a public method that returns a context manager; its block is in the span.

    The method itself checks that the store is open, when the block is entered.
    """
    spans = SpanMaker(method)

    @contextmanager
    def traced(tracer: Any, self: Any, args: Any, kwargs: Any) -> Iterator[Any]:
        with ActiveSpan(spans.start(tracer, self, args, kwargs)):
            with method(self, *args, **kwargs) as value:
                yield value

    @wraps(method)
    def enter(self: Any, *args: Any, **kwargs: Any) -> Any:
        tracer = spans.tracer(self)
        if tracer is None:
            return method(self, *args, **kwargs)
        return traced(tracer, self, args, kwargs)

    return cast("AnyMethod", enter)


def iteration(counts: str) -> Callable[[AnyMethod], AnyMethod]:
    """Decorate a public method that returns an iterator.

    The span is the current one only while the store reads, because between two items the caller's
    code runs, which may never ask for another one.

    Args:
        counts: what the items are, as in `operation`.
    """

    def decorate(method: AnyMethod) -> AnyMethod:
        spans = SpanMaker(method, counts)

        def traced(
            tracer: Any, iterator: Any, self: Any, args: Any, kwargs: Any
        ) -> Iterator[Any]:
            span = spans.start(tracer, self, args, kwargs)
            count = 0
            try:
                while True:
                    with ActiveSpan(span, ends=False):
                        try:
                            item = iterator.__next__()
                        except StopIteration:
                            break
                    count += 1
                    yield item
            finally:
                spans.count(span, count)
                span.end()
                iterator.close()

        @wraps(method)
        def iterate(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.require_open()
            tracer = spans.tracer(self)
            iterator = method(self, *args, **kwargs)
            return iterator if tracer is None else traced(tracer, iterator, self, args, kwargs)

        return cast("AnyMethod", iterate)

    return decorate
