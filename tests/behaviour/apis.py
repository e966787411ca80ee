"""The two APIs under test: the async one, and the sync one with calls that can be awaited.

So each promise is written once. What this hides (threads, plain iteration and context managers) is
tested in `test_sync_api.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from importlib import import_module
from types import GeneratorType, TracebackType
from typing import Any, Generic, TypeVar, cast

from jazzmine.core import Stores, long_term_memory, message_store, working_memory

T = TypeVar("T")
_SYNC = "jazzmine._sync"


class Api:
    """The stores of one API, with the signatures of the async API, and how calls are made at once.

    Args:
        name: "async" or "sync".
    """

    MessageStore: type[message_store.MessageStore]
    JSONMessageStore: type[message_store.JSONMessageStore]
    WorkingMemoryStore: type[working_memory.WorkingMemoryStore]
    InMemoryWorkingMemoryStore: type[working_memory.InMemoryWorkingMemoryStore]
    LongTermMemoryStore: type[long_term_memory.LongTermMemoryStore]
    open_stores: Callable[..., AbstractAsyncContextManager[Stores]]

    def __init__(self, name: str) -> None:
        self.name = name
        public = import_module(f"jazzmine.{'core' if name == 'async' else name}")
        for store in Api.__annotations__:
            setattr(self, store, as_async(getattr(public, store)))

    def __str__(self) -> str:
        return self.name

    def internal(self, module: str) -> Any:
        """Return a module of the tree of this API, as in `internal("message_store.store")`."""
        return as_async(import_module(f"jazzmine._{self.name}.{module}"))

    async def settle(self, *calls: Callable[[], Awaitable[T]]) -> list[T | BaseException]:
        """Make all calls at once, in tasks or threads; return the result or error of each."""
        if self.name == "async":
            return await asyncio.gather(*(call() for call in calls), return_exceptions=True)
        with ThreadPoolExecutor(len(calls)) as threads:
            futures = [threads.submit(_completed_call, call) for call in calls]
            return [future.exception() or future.result() for future in futures]

    async def gather(self, *calls: Callable[[], Awaitable[T]]) -> list[T]:
        """Make all calls at once, and return their results in the order of the calls."""
        outcomes = await self.settle(*calls)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return cast("list[T]", outcomes)

    async def pause(self, seconds: float) -> None:
        """Let the other tasks, or threads, run for a while."""
        if self.name == "async":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)

    def start(self, call: Callable[[], Awaitable[T]]) -> Started[T]:
        """Start a call in a task, or a thread."""
        return Started(call, in_thread=self.name == "sync")


class Started(Generic[T]):
    """A call that runs in a task, or in a thread."""

    def __init__(self, call: Callable[[], Awaitable[T]], *, in_thread: bool) -> None:
        self._call: asyncio.Future[T] | Future[T]
        if in_thread:
            thread = ThreadPoolExecutor(1)
            self._call = thread.submit(_completed_call, call)
            thread.shutdown(wait=False)
        else:
            self._call = asyncio.ensure_future(call())

    def done(self) -> bool:
        """Return whether the call has ended."""
        return self._call.done()

    async def result(self) -> T:
        """Wait for the call, and return its result or raise its error."""
        return self._call.result() if isinstance(self._call, Future) else await self._call


def _completed_call(call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a call of the sync API, which never waits for an event loop."""
    coroutine = cast("Coroutine[Any, Any, T]", call())
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    coroutine.close()
    raise RuntimeError("the call waits for an event loop")


def as_async(value: Any) -> Any:
    """Give a module, a class or an object of the sync API, or an iterator, the async API.

    Anything else is returned as it is.
    """
    if isinstance(value, GeneratorType):
        return _Iterator(value)
    if inspect.isfunction(value) and value.__module__.startswith(_SYNC):
        return _Method(value, is_coroutine=False)
    owner = value if inspect.ismodule(value) or inspect.isclass(value) else type(value)
    if _source(owner) is not None:
        return _AsAsync(value)
    return _Block(value) if isinstance(value, AbstractContextManager) else value


def _as_sync(value: Any) -> Any:
    """Return what a call of the sync API is given in place of a value of a test."""
    if isinstance(value, _AsAsync | _Method):
        return object.__getattribute__(value, "_target")
    if inspect.iscoroutinefunction(value):
        return lambda *args, **named: _completed_call(partial(value, *args, **named))
    return value


class _Method:
    """A function of the sync API whose results are given the async API."""

    def __init__(self, target: Callable[..., Any], is_coroutine: bool) -> None:
        self._target = target
        self._is_coroutine = is_coroutine
        self.__name__ = target.__name__

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._run(args, named) if self._is_coroutine else self._call(args, named)

    async def _run(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return self._call(args, named)

    def _call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = {name: _as_sync(value) for name, value in named.items()}
        return as_async(self._target(*map(_as_sync, args), **given))


class _Block:
    """A context manager of the sync API that `async with` enters."""

    def __init__(self, target: AbstractContextManager[Any]) -> None:
        self._target = target

    async def __aenter__(self) -> Any:
        entered = self._target.__enter__()
        return self if entered is self._target else as_async(entered)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._target.__exit__(kind, error, traceback)


class _Iterator:
    """A generator of the sync API that `async for` iterates over."""

    def __init__(self, target: Generator[Any, None, None]) -> None:
        self._target = target

    def __aiter__(self) -> _Iterator:
        return self

    async def __anext__(self) -> Any:
        for item in self._target:
            return as_async(item)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._target.close()


class _AsAsync(_Block):
    """A module, class or object of the sync API, with the methods of its async source."""

    _target: Any

    def __init__(self, target: Any) -> None:
        object.__setattr__(self, "_target", target)

    def _kind(self) -> Any:
        target = self._target
        is_object = not inspect.ismodule(target) and not inspect.isclass(target)
        return _source(type(target)) if is_object else _AsAsync

    __class__: Any = property(_kind)  # what `isinstance` asks

    def __getattr__(self, name: str) -> Any:
        target = self._target
        value = getattr(target, name)
        if inspect.isclass(value) or not callable(value):
            return as_async(value)
        owner = target if inspect.ismodule(target) or inspect.isclass(target) else type(target)
        return _Method(value, inspect.iscoroutinefunction(getattr(_source(owner), name, None)))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._target, name, _as_sync(value))

    def __delattr__(self, name: str) -> None:
        delattr(self._target, name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return _Method(self._target, is_coroutine=False)(*args, **named)

    def __iter__(self) -> Iterator[Any]:
        return map(as_async, self._target)

    def __repr__(self) -> str:
        return repr(self._target)


def _source(twin: Any) -> Any:
    """Return the module or class that one of the sync API is generated from, or None."""
    if inspect.ismodule(twin):
        is_twin = twin.__name__.startswith(_SYNC)
        return import_module(_source_name(twin.__name__)) if is_twin else None
    for kind in twin.__mro__:
        if kind.__module__.startswith(_SYNC):
            return getattr(import_module(_source_name(kind.__module__)), kind.__qualname__)
    return None


def _source_name(module: str) -> str:
    return module.replace(_SYNC, "jazzmine._async", 1)


async def take(iterator: AsyncIterator[T], count: int) -> list[T]:
    """Return the next `count` items."""
    return [await iterator.__anext__() for _ in range(count)]


async def end(iterator: AsyncIterator[Any]) -> None:
    """Leave an iteration before its end."""
    closing: Any = iterator
    await closing.aclose()


class Runner:
    """Makes async calls from sync functions, all of them on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, call: Awaitable[Any]) -> Any:
        """Return the result of a call."""
        return self._loop.run_until_complete(call)

    def collect(self, iterate: Callable[[], AsyncIterator[T]]) -> list[T]:
        """Return all items of the iterator that the call returns."""

        async def items() -> list[T]:
            return [item async for item in iterate()]

        return self._loop.run_until_complete(items())


ASYNC = Api("async")
SYNC = Api("sync")
APIS = [ASYNC, SYNC]
