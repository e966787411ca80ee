"""Which versions of a framework an adapter works with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

__all__ = ["is_between", "supported"]


@contextmanager
def supported(package: str, oldest: str, too_new: str) -> Iterator[None]:
    """Import a framework in the block, if its version is `oldest` or later, and before `too_new`.

    Raises:
        ImportError: it is not installed, too old, or too new.
    """
    wanted = f"pip install '{package}>={oldest},<{too_new}'"
    try:
        found = version(package)
    except PackageNotFoundError:
        raise ImportError(f"This adapter needs {package}: {wanted}") from None
    if not is_between(found, oldest, too_new):
        raise ImportError(f"This adapter does not work with {package} {found}: {wanted}")
    yield


def is_between(number: str, oldest: str, too_new: str) -> bool:
    """Return whether a version is `oldest` or later, and before `too_new` and its prereleases."""
    release, is_prerelease = _parsed(number)
    floor, _ = _parsed(oldest)
    if release == floor and is_prerelease:
        return False
    return floor <= release < _parsed(too_new)[0]


def _parsed(number: str) -> tuple[list[int], bool]:
    """Return the three numbers of a version's release, and whether it comes before the release."""
    found = re.match(r"(\d+(?:\.\d+)*)(.*)", number)
    release, rest = found.groups() if found else ("0", "")
    numbers = [int(part) for part in release.split(".")]
    is_prerelease = re.match(r"[-_.]?(a|b|c|rc|alpha|beta|pre|preview|dev)", rest.lower())
    return [*numbers, 0, 0][:3], is_prerelease is not None
