"""Read a file, and replace it so that after any crash its content is all old or all new."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from jazzmine.backends.files import require_regular

Version: TypeAlias = tuple[int, ...]
"""What differs if a file was changed or replaced; it is empty for one that does not exist."""

# Windows refuses to replace a file that another process reads; it is tried again after so many s.
_PAUSES = (0.001, 0.01, 0.1, 0.5, 1.0) if os.name == "nt" else ()


def version_of(path: str) -> Version:
    """Return the version of a file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev


def read_file(path: str) -> tuple[bytes, Version]:
    """Return the content of a file, and its version; that of one that does not exist is empty.

    Raises:
        OSError: it cannot be read, or it is a folder, a pipe or a device.
    """
    while require_regular(path):
        version = version_of(path)
        with suppress(FileNotFoundError), open(path, "rb") as file:
            content = file.read()
            if version == version_of(path):
                return content, version
    return b"", ()


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
        _rename(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path  # the calls that write and flush name no file
        raise
    if fsync and hasattr(os, "O_DIRECTORY"):  # Windows flushes no folders
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _write(temporary: str, path: str, content: Iterable[bytes], *, fsync: bool) -> None:
    """Write a file with the mode of another one; root gives it the owner of that, too."""
    with suppress(FileNotFoundError):
        os.unlink(temporary)  # of a killed process
    with open(temporary, "xb", opener=partial(os.open, mode=0o600)) as file:
        with suppress(FileNotFoundError):
            replaced = os.stat(path)
            if hasattr(os, "geteuid") and os.geteuid() == 0 != replaced.st_uid:
                # Otherwise the program could not read its file after a command with `sudo`.
                os.chown(temporary, replaced.st_uid, replaced.st_gid)
            os.chmod(temporary, stat.S_IMODE(replaced.st_mode))
        file.writelines(content)
        file.flush()
        if fsync:
            # A failed flush may have dropped the pages that it could not write, so it is never
            # repeated on this file: the write fails.
            os.fsync(file.fileno())


def _rename(temporary: str, path: str) -> None:
    for pause in _PAUSES:
        with suppress(PermissionError):
            os.replace(temporary, path)
            return
        time.sleep(pause)
    os.replace(temporary, path)
