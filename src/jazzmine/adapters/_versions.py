"""Which versions of a framework an adapter works with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version


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
    if not _release(oldest) <= _release(found) < _release(too_new):
        raise ImportError(f"This adapter does not work with {package} {found}: {wanted}")
    yield


def _release(number: str) -> list[int]:
    """Return the three numbers of a version's release, or of the release that it comes before."""
    numbers = re.findall(r"\d+", number)
    return [*map(int, numbers), 0, 0][:3]
