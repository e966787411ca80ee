"""Give a file the access rights of another one, which it replaces or locks."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress

__all__ = ["copy_access"]


def copy_access(fd: int, path: str, old: os.stat_result, mode: int) -> None:
    """Set the owner, group and access list of a file to those of another, and set its mode.

    If this process may not change the owner, it stays the owner itself, provided that it may
    write to the other file.

    Args:
        fd: the open file.
        path: the other file.
        old: the result of `os.stat(path)`.
        mode: the file's mode, usually that of the other file.

    Raises:
        PermissionError: a group that has rights on the other file would have none on this
            one; or the other file is another user's, and this process may not write to it.
        OSError: the mode or the access list cannot be set.
    """
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        own = _changed_owner(fd, old)
    if own.st_uid != old.st_uid:
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    if own.st_gid != old.st_gid and _group_matters(old.st_mode):
        raise PermissionError(
            errno.EPERM,
            f"its group {old.st_gid} would lose it: this process may not give a file to that"
            " group, and nothing was written; run it as a member of the group, or set the"
            " folder's group to it and its setgid bit (chmod g+s)",
            path,
        )
    _copy_access_list(fd, path)
    os.fchmod(fd, mode)


def _changed_owner(fd: int, old: os.stat_result) -> os.stat_result:
    # Only root may change a file's owner; others may give it to a group that they are in.
    # The error for a change that is not allowed differs by system, so the result is checked.
    with suppress(OSError):
        os.fchown(fd, -1, old.st_gid)
    with suppress(OSError):
        os.fchown(fd, old.st_uid, -1)
    return os.fstat(fd)


def _group_matters(mode: int) -> bool:
    return (mode & stat.S_IRWXG) >> 3 != mode & stat.S_IRWXO


def _copy_access_list(fd: int, path: str) -> None:
    if sys.platform != "linux":
        return
    name = "system.posix_acl_access"
    try:
        entries = os.getxattr(path, name)
    except OSError:
        # The other file has none: remove the one that the folder gives to new files.
        with suppress(OSError):
            os.removexattr(fd, name)
    else:
        os.setxattr(fd, name, entries)
