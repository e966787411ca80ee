"""Read a file, and replace it so that after any crash its content is all old or all new."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TypeAlias

from jazzmine.deadline import Deadline, backoff

__all__ = ["MISSING", "Version", "read_file", "replace_file", "version_of"]

Version: TypeAlias = tuple[int, ...]
"""What differs if a file was changed or replaced."""

MISSING: Version = ()
"""The version of a file that does not exist."""

# Blocks are written some at a time: a few large writes take half the time of many small ones, and
# copying all blocks into one would take as long as writing them.
_BLOCKS_A_WRITE = 500

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write other ends of lines

# Windows refuses to replace a file that another process reads; so long, in s, it is tried again.
_IS_WINDOWS = os.name == "nt"
_REPLACED_WITHIN = 2.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


def version_of(path: str) -> Version:
    """Return the version of a file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return MISSING
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def read_file(path: str) -> tuple[bytes, Version]:
    """Return the content of a file and its version; that of one that does not exist is empty.

    Raises:
        OSError: it cannot be read, or it is a folder, a pipe or a device.
    """
    while True:
        version = version_of(path)
        if version == MISSING:
            os.stat(os.path.dirname(path))
            return b"", MISSING
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        with suppress(FileNotFoundError), open(path, "rb") as file:
            content = file.read()
            if version == version_of(path):
                return content, version


def replace_file(path: str, content: Iterable[bytes], *, fsync: bool) -> Version:
    """Replace the file at `path`, or leave it unchanged and raise; return its version.

    The content goes to `{path}.tmp`, is flushed to the disk, and is renamed over `path`;
    then the folder is flushed, because otherwise a power cut could undo the rename.

    Args:
        path: an absolute path without symbolic links; no other process replaces it meanwhile.
        content: the whole file, in blocks.
        fsync: whether to wait for the disk.

    Raises:
        OSError: the file could not be written. `path` has its old content, unless the folder could
            not be flushed.
    """
    temporary = f"{path}.tmp"
    try:
        _write(temporary, content, _mode_of(path), fsync=fsync)
        _replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path  # the calls that write and flush name no file
        raise
    version = version_of(path)
    if fsync:
        _flush_folder(os.path.dirname(path))
    return version


def _mode_of(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return 0o600


def _write(path: str, content: Iterable[bytes], mode: int, *, fsync: bool) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)  # of a killed process
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
    try:
        if mode != 0o600:
            os.chmod(path, mode)
        for block in _joined(content):
            _write_all(fd, block)
        if fsync:
            # A failed flush may have dropped the pages that it could not write, so it is never
            # repeated on this file: the write fails.
            os.fsync(fd)
    finally:
        os.close(fd)


def _joined(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = iter(blocks)
    while block := b"".join(islice(rest, _BLOCKS_A_WRITE)):
        yield block


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _replace(temporary: str, path: str) -> None:
    deadline, pauses = Deadline(_REPLACED_WITHIN), backoff(_SHORTEST_PAUSE, _LONGEST_PAUSE)
    while True:
        try:
            os.replace(temporary, path)
            return
        except PermissionError:
            if not _IS_WINDOWS or deadline.expired:
                raise
        time.sleep(next(pauses))


def _flush_folder(path: str) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows has no such thing
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
