"""Checks of the file of a store."""

from __future__ import annotations

import errno
import os
import stat

from jazzmine.errors import ConfigurationError

# What the kernel writes in its list of mounts in place of these characters.
_ESCAPES = {ord(character): f"\\{ord(character):03o}" for character in " \t\n\\"}


def require_regular(path: str) -> bool:
    """Return whether a file exists; raise `OSError` if it cannot be opened or made.

    Args:
        path: the file, without symbolic links.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        _require_folder(os.path.dirname(path))
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return True


def _require_folder(folder: str) -> None:
    try:
        os.stat(folder)
    except FileNotFoundError as error:
        text = "there is no such folder, and a store makes none"
        if "~" in folder:
            text += "; ~ is not expanded, as os.path.expanduser does"
        raise FileNotFoundError(error.errno, text, folder) from None


def unwritable(path: str) -> str | None:
    """Return which of a file, those that a store has beside it and its folder may not be written.

    Args:
        path: the file, without symbolic links.
    """
    files = (path, f"{path}-wal", f"{path}-shm", f"{path}.lock", os.path.dirname(path))
    return next(
        (file for file in files if os.path.exists(file) and not os.access(file, os.W_OK)), None
    )


def require_own_folder(path: str) -> None:
    """Raise `ConfigurationError` if a file is mounted alone, as `docker -v FILE:FILE` does it.

    It has another name outside, where the files beside it are missing, and cannot be replaced.

    Args:
        path: the file, without symbolic links.
    """
    try:
        with open("/proc/self/mountinfo", errors="surrogateescape") as mounts:
            is_mounted = path.translate(_ESCAPES) in (line.split(" ")[4] for line in mounts)
    except OSError:
        return  # not on Linux
    if is_mounted:
        raise ConfigurationError(
            f"{path} is mounted alone: the files that are made beside it would be lost or"
            " missed by others; mount the folder that it is in"
        )


def require_one_name(path: str) -> None:
    """Raise `ConfigurationError` if a file has hard links: each would get files of its own beside.

    Args:
        path: the file, without symbolic links.
    """
    if os.stat(path).st_nlink > 1:
        raise ConfigurationError(
            f"{path} has another name (a hard link), under which the files beside it would be"
            " missed: open it by one name, and remove or copy the other"
        )
    require_own_folder(path)
