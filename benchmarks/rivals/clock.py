"""A clock of a process that can be ahead of the others."""

from __future__ import annotations

import datetime
import time
from typing import Any

_system_time = time.time
_ahead = 0.0


def now() -> float:
    return _system_time() + _ahead


def set_clock(ahead: float) -> None:
    """Put the clock of this process ahead by some seconds."""
    global _ahead
    _ahead = ahead


def install() -> None:
    """Replace the functions that ask for the time, before a library imports them."""
    time.time = now
    time.time_ns = lambda: int(now() * 1e9)
    datetime.datetime = _DateTime  # type: ignore[misc]


class _Kind(type(datetime.datetime)):  # type: ignore[misc]
    """Takes every datetime for an instance of the replacement."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _system_datetime)


_system_datetime = datetime.datetime


class _DateTime(datetime.datetime, metaclass=_Kind):
    __slots__ = ()

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _system_datetime.fromtimestamp(now(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(datetime.UTC).replace(tzinfo=None)
