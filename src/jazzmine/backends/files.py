"""Checks of the file of a store."""

from __future__ import annotations

import os
import sys

from jazzmine.errors import ConfigurationError

__all__ = ["is_read_only", "require_folder", "require_one_name", "require_own_folder"]


def is_read_only(path: str) -> bool:
    """Return whether a file is on a file system that nothing can be written to."""
    if sys.platform == "win32" or not os.path.exists(path):
        return False
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def require_folder(path: str) -> None:
    """Raise `OSError` if a file's folder is missing, or cannot be read.

    Args:
        path: the file, without symbolic links; it need not exist.
    """
    folder = os.path.dirname(path)
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
        path: the file, without symbolic links; it need not exist.
    """
    if sys.platform == "linux" and os.path.exists(path):
        if _mount_of(path) != _mount_of(os.path.dirname(path)):
            raise ConfigurationError(
                f"{path} is mounted alone: the files that are made beside it would be lost or"
                " missed by others; mount the folder that it is in"
            )


def require_one_name(path: str) -> None:
    """Raise `ConfigurationError` if a file has hard links: each would get files of its own beside.

    Args:
        path: the file, without symbolic links; it need not exist.
    """
    if os.path.exists(path) and os.stat(path).st_nlink > 1:
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
