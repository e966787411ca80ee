"""Locks between processes: one for writing a file, and one on a new file until it is durable."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakSet

from filelock import lock_descriptor, unlock_descriptor

from jazzmine.backends.json.access import copy_access
from jazzmine.errors import LockTimeoutError

__all__ = ["DescriptorLock", "FileMutex", "is_locked"]

# A lock file that another user has just created does not have its final mode yet.
_OPENING_ATTEMPTS, _OPENING_PAUSE = 50, 0.002

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class FileMutex:
    """The lock of filelock's `FileLock`, on a file that is kept open between uses.

    `FileLock` opens the file each time, which takes longer than locking it. The lock file has
    the access rights of the file that it protects.

    Args:
        guarded: the file that the lock protects; the lock file, `{guarded}.lock`, is created
            when it is first needed, and never removed.
    """

    def __init__(self, guarded: str) -> None:
        self._guarded = guarded
        self._path = f"{guarded}.lock"
        self._fd: int | None = None

    @contextmanager
    def attempt(self) -> Iterator[bool]:
        """Hold the lock for a block if it is free; yield whether it was.

        Only one thread at a time may call this.

        Raises:
            OSError: the lock file cannot be created or opened.
        """
        held = self._acquire()
        try:
            yield held
        finally:
            # A child that was forked meanwhile has closed the file; its parent holds the lock.
            if held and self._fd is not None:
                unlock_descriptor(self._fd)

    @property
    def is_in_place(self) -> bool:
        """Whether the lock file still has its name: otherwise another process makes a new one."""
        return self._fd is not None and os.fstat(self._fd).st_nlink > 0

    def timeout_error(self, timeout: float) -> LockTimeoutError:
        """Return the error for a call that has waited for the lock for `timeout` s."""
        return LockTimeoutError(
            f"{self._path} was not free within {timeout:g} s: another process"
            " writes, or holds it and is stuck; nothing was written"
        )

    def close(self) -> None:
        """Close the lock file; in a forked process this leaves the lock to the parent."""
        with _opening:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def __del__(self) -> None:
        # Of a store that was dropped without being closed; it holds no lock.
        if self._fd is not None:
            os.close(self._fd)

    def _acquire(self) -> bool:
        while True:
            fd = self._open() if self._fd is None else self._fd
            if not lock_descriptor(fd, blocking=False):
                return False
            if os.fstat(fd).st_nlink:
                self._update_access(fd)
                return True
            # The file was removed, so the next process that needs the lock creates another.
            self.close()

    def _open(self) -> int:
        refusals = 0
        while self._fd is None:
            try:
                with _opening:
                    self._fd = os.open(self._path, _FLAGS)
                    _open_locks.add(self)
            except FileNotFoundError:
                self._make()
            except PermissionError as error:
                refusals += 1
                if refusals == _OPENING_ATTEMPTS:
                    raise self._refused(error) from None
                time.sleep(_OPENING_PAUSE)
        return self._fd

    def _make(self) -> None:
        try:
            fd = os.open(self._path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return
        try:
            self._copy_access(fd)
        except BaseException:
            os.unlink(self._path)
            raise
        finally:
            os.close(fd)

    def _update_access(self, fd: int) -> None:
        # The mode or group of the protected file may have changed since the lock file was made.
        # Only the owner of the lock file can change it too, and this call does not need it.
        with suppress(OSError):
            guarded, own = os.stat(self._guarded), os.fstat(fd)
            if (own.st_mode & 0o777, own.st_gid) != (_lock_mode(guarded), guarded.st_gid):
                self._copy_access(fd)

    def _copy_access(self, fd: int) -> None:
        with suppress(FileNotFoundError):
            guarded = os.stat(self._guarded)
            copy_access(fd, self._guarded, guarded, _lock_mode(guarded))

    def _refused(self, error: PermissionError) -> PermissionError:
        return PermissionError(
            error.errno or errno.EACCES,
            f"{error.strerror}; a process that writes to {self._guarded} needs the right to"
            " write to its lock file, which should have the same group and mode",
            self._path,
        )


def _lock_mode(guarded: os.stat_result) -> int:
    # The owner of a file that is read-only may still replace it.
    return stat.S_IMODE(guarded.st_mode) & 0o777 | 0o600


class DescriptorLock:
    """The lock of an open file itself, held for a `with` block.

    Args:
        fd: the open file; no other process may have it open when the block begins.
    """

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def __enter__(self) -> None:
        assert self._fd is not None
        with _opening:
            _open_locks.add(self)
            lock_descriptor(self._fd, blocking=False)

    def __exit__(self, *_: object) -> None:
        _open_locks.discard(self)
        # A child that was forked meanwhile has closed the file; its parent holds the lock. An
        # error here would report a write as failed that has succeeded.
        if self._fd is not None:
            with suppress(OSError):
                unlock_descriptor(self._fd)

    def close(self) -> None:
        """Close the file; in a forked process this leaves the lock to the parent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def is_locked(fd: int) -> bool:
    """Return whether a `DescriptorLock` is held on an open file through another descriptor."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # On a file system without locks a file can be read, but not written by this library.
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


# A forked child inherits the open file of a lock that its parent holds, and would keep the
# lock after the parent was killed: so the child closes the file at once. `_opening` is held
# during a fork, so that every open file with a lock is in `_open_locks`.
_opening = threading.RLock()
_open_locks: WeakSet[FileMutex | DescriptorLock] = WeakSet()


def _close_after_fork() -> None:
    for lock in list(_open_locks):
        lock.close()
    _opening.release()


os.register_at_fork(
    before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_close_after_fork
)
