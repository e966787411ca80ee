"""The deadline of a call, which all that is done for it shares (`faults/test_one_deadline.py`)."""

from __future__ import annotations

import time
from contextvars import copy_context
from typing import Any

from jazzmine._async.operation import operation
from jazzmine.deadline import CALL_BEGAN, Deadline, begin_call, call_deadline


class Store:
    """A store with calls that return deadlines, and one that never ends."""

    scope = "jazzmine.test"

    def __init__(self, inner: Store | None = None) -> None:
        self._inner = inner

    def require_open(self) -> None:
        pass

    @operation()
    async def deadlines(self) -> list[Deadline]:
        found = [call_deadline(10.0)]
        if self._inner is not None:
            time.sleep(0.001)
            found += await self._inner.deadlines()
        time.sleep(0.001)
        return [*found, call_deadline(10.0)]

    @operation()
    async def wait(self) -> None:
        await Never()


class Never:
    """What is awaited in vain."""

    def __await__(self) -> Any:
        while True:
            yield


def is_same(one: Deadline, other: Deadline) -> bool:
    return not one < other and not other < one


async def test_a_call_in_a_call_has_a_deadline_of_its_own() -> None:
    first, inner, *_, last = await Store(Store()).deadlines()
    assert first < inner
    assert is_same(first, last)


async def test_outside_of_calls_each_deadline_begins_when_it_is_asked_for() -> None:
    first = call_deadline(10.0)
    await Store().deadlines()
    begin_call()
    time.sleep(0.001)
    assert first < call_deadline(10.0)
    assert CALL_BEGAN.get() is None


def test_a_call_that_a_loop_has_left_behind_is_closed_in_another_context() -> None:
    call = Store().wait()
    copy_context().run(call.send, None)
    call.close()
    assert CALL_BEGAN.get() is None
