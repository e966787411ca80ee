"""A change that waits to be committed together with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Change"]

T = TypeVar("T")


class Change(Generic[T]):
    """What is to be done to a T, and what came of it: a result or an error."""

    __slots__ = ("apply", "done", "error", "result")

    def __init__(self, apply: Callable[[T], Any]) -> None:
        self.apply = apply
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def outcome(self) -> Any:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result
