"""Replace a file so that after any crash its content is completely old or completely new."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from jazzmine.backends.json.access import copy_access
from jazzmine.backends.json.lock import DescriptorLock

__all__ = ["FileChanged", "FileView", "flush_file", "open_view", "replace_file"]

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)

# Many blocks are written at a time without joining them: a few large writes take half the time
# of many small ones, and copying the blocks into one would take as long as writing them.
_BYTES_A_WRITE = 1 << 20
_BLOCKS_A_WRITE = 512  # POSIX allows 1,024


class FileView:
    """The file that was last read or written, kept open to detect when it changes.

    The open descriptor keeps the system from using its inode for a newer file. What changes is
    looked up by its path: a descriptor may lead to the lower layer of an overlay for ever.

    Args:
        fd: the open file.
        status: that of the path, before it was opened or after it was written.
    """

    __slots__ = ("_status", "fd")

    def __init__(self, fd: int, status: os.stat_result) -> None:
        self.fd: int = fd
        self._status = _significant(status)

    def is_current(self, path: str) -> bool:
        """Return whether the path still leads to this file, unchanged."""
        try:
            return _significant(os.stat(path)) == self._status
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the descriptor, once: its number may belong to another file afterwards."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = close


def _significant(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


class FileChanged(Exception):
    """The file was not replaced, because the writer's right to do so has ended."""


def open_view(path: str) -> FileView:
    """Open a file to read it.

    Raises:
        OSError: it cannot be opened, or it is a folder, a pipe or a device.
    """
    status = os.stat(path)
    return FileView(_open_regular_file(path), status)


def _open_regular_file(path: str) -> int:
    """Open a file to read it, and return its descriptor.

    Raises:
        OSError: it cannot be opened, or it is a folder, a pipe or a device.
    """
    # Without O_NONBLOCK, opening a pipe without a writer would wait forever.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    kind = os.fstat(fd).st_mode
    if stat.S_ISREG(kind):
        return fd
    os.close(fd)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a regular file", path)


def flush_file(path: str, fd: int) -> None:
    """Flush an open file and the folder that it is in to the disk."""
    os.fsync(fd)
    folder = _open_folder(path)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def replace_file(
    path: str, content: Iterable[bytes], *, fsync: bool, is_allowed: Callable[[], bool]
) -> FileView:
    """Replace the file at `path`, or leave it unchanged and raise.

    The content goes to `{path}.tmp`, is flushed to the disk, and is renamed over `path`;
    then the folder is flushed, because otherwise a power cut could undo the rename. Until that
    is done, the lock of the new file keeps other processes from reading it.

    Args:
        path: an absolute path without symbolic links.
        content: the whole file, in blocks.
        fsync: whether to wait for the disk.
        is_allowed: called right before the rename.

    Raises:
        FileChanged: it is not allowed.
        PermissionError: the new file would lock out users of the old one.
        OSError: the file could not be written; `path` has its old content.
    """
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    fd = _write_beside(path, content, old, fsync=fsync)
    try:
        if not is_allowed():
            raise FileChanged
        if fsync:
            with DescriptorLock(fd):
                _rename_durably(path, old)
        else:
            os.replace(f"{path}.tmp", path)
        try:
            status = os.fstat(fd)
        except OSError:
            # An error now would report a write as failed that has succeeded: it is read again.
            status = os.stat_result([0] * 10)
        return FileView(fd, status)
    except BaseException:
        os.close(fd)
        with suppress(OSError):
            os.unlink(f"{path}.tmp")
        raise


def _write_beside(
    path: str, content: Iterable[bytes], old: os.stat_result | None, *, fsync: bool
) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | _NO_FOLLOW
    try:
        fd = os.open(f"{path}.tmp", flags, 0o600)
    except FileExistsError:
        # A killed process created it: no other process writes while this one holds the lock.
        os.unlink(f"{path}.tmp")
        fd = os.open(f"{path}.tmp", flags, 0o600)
    try:
        if old is not None:
            copy_access(fd, path, old, stat.S_IMODE(old.st_mode))
        _write_all(fd, content)
        if fsync:
            # A failed flush may have dropped the pages that it could not write, so it is never
            # repeated on this descriptor: the write fails.
            os.fsync(fd)
    except BaseException as error:
        os.close(fd)
        with suppress(OSError):
            os.unlink(f"{path}.tmp")
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path  # the calls that write and flush name no file
        raise
    return fd


def _write_all(fd: int, blocks: Iterable[bytes]) -> None:
    waiting: list[bytes] = []
    size = 0
    for block in blocks:
        waiting.append(block)
        size += len(block)
        if size >= _BYTES_A_WRITE or len(waiting) == _BLOCKS_A_WRITE:
            _write(fd, waiting, size)
            waiting, size = [], 0
    _write(fd, waiting, size)


def _write(fd: int, blocks: Sequence[bytes], size: int) -> None:
    written = os.writev(fd, blocks)
    if written < size:
        rest = memoryview(b"".join(blocks))[written:]
        while rest:
            rest = rest[os.write(fd, rest) :]


def _rename_durably(path: str, old: os.stat_result | None) -> None:
    # All descriptors are opened before the rename: if opening failed after it, the folder could
    # not be flushed, nor the rename undone.
    backup = None if old is None else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        folder = _open_folder(path)
        try:
            os.replace(f"{path}.tmp", path)
        except BaseException:
            os.close(folder)
            raise
        _flush_folder_or_undo(path, folder, backup, old)
    finally:
        if backup is not None:
            os.close(backup)


def _open_folder(path: str) -> int:
    return os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _flush_folder_or_undo(
    path: str, folder: int, backup: int | None, old: os.stat_result | None
) -> None:
    try:
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError:
        # The new file is in place but a power cut may undo it, and the caller will get an error
        # which says that nothing was written: so the old content is restored.
        if backup is None or old is None:
            os.unlink(path)
        else:
            fd = _write_beside(path, [_read_all(backup)], old, fsync=False)
            # Flushed before the rename, if the disk can still flush: otherwise a power cut
            # could leave an empty file at `path`.
            with suppress(OSError):
                os.fsync(fd)
            os.close(fd)
            os.replace(f"{path}.tmp", path)
        raise


def _read_all(fd: int) -> bytes:
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()
