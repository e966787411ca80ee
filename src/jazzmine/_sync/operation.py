"""The public methods of a store: each checks that the store is open, and is one span.

All statements of a call have one deadline, so it is noted here when the call began.
"""

from __future__ import annotations

from collections.abc import Iterator, Callable
from contextlib import contextmanager
from functools import wraps
from time import monotonic
from typing import Any, TypeVar, cast

from jazzmine._compat.concurrency import sync_sleep as sleep
from jazzmine.deadline import CALL_BEGAN, SharedBeginning, begin_call
from jazzmine.tracing import call_span, count_records

# After each step, other calls get a multiple of its time, which is not longer than this, in s.
_PAUSE_PER_STEP, _LONGEST_PAUSE = 4, 0.01

AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])


def operation(counts: str = "", *, needs_open: bool = True) -> Callable[[AnyMethod], AnyMethod]:
    """Decorate a public method; its span has the number of records as `jazzmine.<counts>`."""

    def decorate(method: AnyMethod) -> AnyMethod:
        # `initialize` is a class method: the store is known only when it is opened.
        name = {"open": "initialize"}.get(method.__name__, method.__name__)
        parameters = method.__code__.co_varnames[1 : method.__code__.co_argcount]

        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            caller = CALL_BEGAN.get()
            try:
                if type(caller) is not SharedBeginning:
                    CALL_BEGAN.set(monotonic())
                positional = zip(parameters, args, strict=False)
                with call_span(self, name, kwargs, positional) as span:
                    if needs_open:
                        self.require_open()
                    result = method(self, *args, **kwargs)
                    if span is not None:
                        count_records(span, counts, result)
                    return result
            finally:
                # Without a token: a generator of an ended loop is closed in another context.
                CALL_BEGAN.set(caller)

        return cast("AnyMethod", call)

    return decorate


def composed(method: AnyMethod) -> AnyMethod:
    """Decorate a public method of a view that calls public methods of its store.

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


@contextmanager
def step() -> Iterator[None]:
    """Give other calls some time after the block, which is one step of a long deletion.

    What follows has a deadline of its own.
    """
    began = monotonic()
    yield
    sleep(min((monotonic() - began) * _PAUSE_PER_STEP, _LONGEST_PAUSE))
    begin_call()
