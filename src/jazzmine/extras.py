"""Packages that are installed by extras of this library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version


@contextmanager
def extra(name: str, user: str) -> Iterator[None]:
    """Import the packages of an extra in the block.

    Args:
        name: the name of the extra.
        user: the part of the library that needs it, for the error.

    Raises:
        ImportError: it is not installed, or too old.
    """
    try:
        yield
        if old := _too_old(name):
            raise ImportError(f"too old: {old}")
    except ImportError as error:
        # Without a version pip would fetch an older package of this name, which is another library.
        raise ImportError(
            f"{user} needs an extra: pip install 'jazzmine[{name}]>=2.0' ({error})"
        ) from error


@cache
def _too_old(name: str) -> str:
    """Return the packages of an extra that are installed in an older version than it needs."""
    needs = re.compile(rf"([\w.-]+)[^;]*>=([\d.]+)[^;]*;.*extra == .{name}.$")
    old = []
    with suppress(PackageNotFoundError):
        for need in filter(None, map(needs.match, requires("jazzmine") or ())):
            package, least = need.groups()
            if _numbers(installed := version(package)) < _numbers(least):
                old.append(f"{package} {installed}, where {least} is needed")
    return "; ".join(old)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
