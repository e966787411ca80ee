"""Read a file, and replace it so that after any crash its content is all old or all new."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from operator import attrgetter
from typing import TypeAlias

from jazzmine.deadline import Deadline, backoff

__all__ = ["MISSING", "KnownFile", "Version", "read_file", "replace_file", "version_of"]

Version: TypeAlias = tuple[int, ...]
"""What differs if a file was changed or replaced."""

MISSING: Version = ()
"""The version of a file that does not exist."""

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write other ends of lines

# Windows refuses to replace a file that another process reads; so long, in s, it is tried again.
_IS_WINDOWS = os.name == "nt"
_REPLACED_WITHIN = 2.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


_version = attrgetter("st_dev", "st_ino", "st_mtime_ns", "st_size")


def version_of(path: str | int) -> Version:
    """Return the version of the file with a path, or of an open file."""
    try:
        return _version(os.stat(path))
    except FileNotFoundError:
        return MISSING


class KnownFile:
    """A file whose content is known; `version_of` its path differs once it is replaced or changed.

    It is open as long as this object lives: a file that replaces it could otherwise get its number
    and look the same. Windows replaces no file that is open.

    Args:
        path: the file, which need not exist.

    Attributes:
        version: that of the file.
    """

    __slots__ = ("_fd", "_path", "version")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: int | None = None
        if not _IS_WINDOWS:
            with suppress(OSError):  # it does not exist, or no more files may be open
                self._fd = os.open(path, os.O_RDONLY)
        try:
            self.version: Version = version_of(path if self._fd is None else self._fd)
        except BaseException:
            self.__del__()
            raise

    def __del__(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def read(self) -> bytes:
        """Return the content of the file."""
        if self._fd is None:
            with open(self._path, "rb") as file:
                return file.read()
        with open(self._fd, "rb", closefd=False) as file:
            return file.read()


def read_file(path: str) -> tuple[bytes, KnownFile]:
    """Return the content of a file, and the file; that of one that does not exist is empty.

    Raises:
        OSError: it cannot be read, or it is a folder, a pipe or a device.
    """
    while True:
        with suppress(FileNotFoundError):
            _require_regular(path)
        known = KnownFile(path)
        if known.version == MISSING:
            os.stat(os.path.dirname(path))
            return b"", known
        with suppress(FileNotFoundError):
            content = known.read()
            if known.version == version_of(path):
                return content, known


def _require_regular(path: str) -> None:
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def replace_file(path: str, content: Iterable[bytes], *, fsync: bool) -> None:
    """Replace the file at `path`, or leave it unchanged and raise.

    The content goes to `{path}.tmp`, is flushed to the disk, and is renamed over `path`;
    then the folder is flushed, because otherwise a power cut could undo the rename.

    Args:
        path: an absolute path without symbolic links; no other process replaces it meanwhile.
        content: the whole file, in a few blocks.
        fsync: whether to wait for the disk.

    Raises:
        OSError: the file could not be written. `path` has its old content, unless the folder could
            not be flushed.
    """
    temporary = f"{path}.tmp"
    try:
        _write(temporary, path, content, fsync=fsync)
        try:
            os.replace(temporary, path)
        except PermissionError:
            if not _IS_WINDOWS:
                raise
            _replace_later(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path  # the calls that write and flush name no file
        raise
    if fsync:
        _flush_folder(os.path.dirname(path))


def _write(temporary: str, path: str, content: Iterable[bytes], *, fsync: bool) -> None:
    """Write a file with the mode of another one; root gives it the owner of that, too."""
    with suppress(FileNotFoundError):
        os.unlink(temporary)  # of a killed process
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
    try:
        with suppress(FileNotFoundError):
            replaced = os.stat(path)
            if hasattr(os, "geteuid") and os.geteuid() == 0 != replaced.st_uid:
                # Otherwise the program could not read its file after a command with `sudo`.
                os.chown(temporary, replaced.st_uid, replaced.st_gid)
            mode = stat.S_IMODE(replaced.st_mode)
            if mode != 0o600:
                os.chmod(temporary, mode)
        for block in content:
            _write_all(fd, block)
        if fsync:
            # A failed flush may have dropped the pages that it could not write, so it is never
            # repeated on this file: the write fails.
            os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _replace_later(temporary: str, path: str) -> None:
    deadline, pauses = Deadline(_REPLACED_WITHIN), backoff(_SHORTEST_PAUSE, _LONGEST_PAUSE)
    while True:
        time.sleep(next(pauses))
        try:
            os.replace(temporary, path)
            return
        except PermissionError:
            if deadline.expired:
                raise


def _flush_folder(path: str) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows has no such thing
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
