"""Packages that are installed by extras of this library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
    except ImportError as error:
        # Without a version pip would fetch an older package of this name, which is another library.
        raise ImportError(
            f"{user} needs an extra: pip install 'jazzmine[{name}]>=2.0' ({error})"
        ) from error
