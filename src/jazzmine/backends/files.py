"""Checks of the file of a store."""

from __future__ import annotations

import errno
import os
import stat
import sys

from jazzmine.errors import ConfigurationError

__all__ = ["require_one_name", "require_own_folder", "require_regular"]


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


def require_own_folder(path: str) -> None:
    """Raise `ConfigurationError` if a file is mounted alone, as `docker -v FILE:FILE` does it.

    It has another name outside, where the files beside it are missing, and cannot be replaced.

    Args:
        path: the file, without symbolic links.
    """
    if sys.platform == "linux" and _mount_of(path) != _mount_of(os.path.dirname(path)):
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


def _mount_of(path: str) -> str:
    # Such a descriptor leaves the locks of the process on the file alone when it is closed.
    fd = os.open(path, os.O_PATH)
    try:
        with open(f"/proc/self/fdinfo/{fd}") as lines:
            return next((line for line in lines if line.startswith("mnt_id:")), "")
    except OSError:
        return ""  # the system does not say
    finally:
        os.close(fd)
