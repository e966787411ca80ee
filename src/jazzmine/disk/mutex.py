"""A lock between processes, on a file beside the one that it guards."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import lock_descriptor, unlock_descriptor

from jazzmine.errors import LockTimeoutError

__all__ = ["FileMutex"]

# filelock's own default, 50 ms, lets eight processes wait 100 ms for each other.
_POLL_SECONDS = 0.002


class FileMutex:
    """The lock that filelock's `FileLock` takes, on a file that is kept open between uses.

    Opening it each time, as `FileLock` does, takes longer than all the rest of it.

    Args:
        path: the lock's file; it is made when it is first needed, and stays.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: int | None = None

    @contextmanager
    def held(self, timeout: float) -> Iterator[None]:
        """Hold the lock for a block; one thread at a time may ask.

        Raises:
            LockTimeoutError: it was not free within `timeout` s.
            OSError: the lock's file cannot be made or opened.
        """
        fd = self._acquire(timeout)
        try:
            yield
        finally:
            unlock_descriptor(fd)

    def close(self) -> None:
        """Let the lock's file go; where a process was forked, its parent keeps the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _acquire(self, timeout: float) -> int:
        until = time.monotonic() + timeout
        while True:
            fd = self._open()
            if not lock_descriptor(fd, blocking=False):
                if time.monotonic() >= until:
                    raise LockTimeoutError(
                        f"{self._path} was not free within {timeout:g} s: another process"
                        " writes, or holds it and is stuck; nothing was written"
                    )
                time.sleep(_POLL_SECONDS)
            elif os.fstat(fd).st_nlink:
                return fd
            else:
                # Somebody removed the file, and the next who comes makes another.
                self.close()

    def _open(self) -> int:
        if self._fd is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self._path, flags, 0o600)
        return self._fd
