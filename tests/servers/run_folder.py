"""The folder of a test run, and the server processes that were started in it.

All files of a run are in that folder, which is removed at the end. After a run that was killed,
the next run ends the remaining servers and removes the folder. A folder in use has a lock (flock),
which the system releases with the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

_PREFIX = "jazzmine-tests-"
_LOCK = "lock"
_PROCESSES = "processes"
_ABANDONED = 3600.0  # seconds after which no process is still creating a folder without a lock file

WITHOUT_SERVERS = "they need a server, or build the package (no --without-servers)"

_refused: list[str] = []
_joined: list[Path] = []
_locks: list[int] = []


class CannotStartError(RuntimeError):
    """A server that the tests need does not start."""


def join(folder: str) -> None:
    """Use the folder that another process of the same run has made."""
    _joined.append(Path(folder))
    _use(Path(folder))


@cache
def entered() -> Path:
    """Return the folder of this run, which is created if necessary."""
    if _joined:
        return _joined[0]
    base = _base()
    _sweep(base)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        folder.chmod(0o711)  # the servers of root run as another user
        if _use(folder):
            break
    (folder / _PROCESSES).mkdir()
    # After `multiprocessing` has removed its own folder, which is in this one; not in a fork.
    Finalize(None, _remove, (folder,), exitpriority=-1000)
    return folder


def new_folder(kind: str) -> Path:
    """Create a folder that is removed at the end of the run, if not earlier.

    Raises:
        Skipped: the run has `refuse_servers`.
    """
    if _refused:
        import pytest  # not installed where the benchmarks start servers

        pytest.skip(WITHOUT_SERVERS)
    return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=entered()))


def refuse_servers() -> None:
    """Skip each test of this run that starts a server."""
    _refused.append(WITHOUT_SERVERS)


def server_user() -> dict[str, Any]:
    """Return the options of `subprocess` that run a program as another user than root."""
    if os.getuid() != 0:
        return {}
    user, group = _other_user()
    return {"user": user, "group": group, "extra_groups": []}


def give_to_server_user(*paths: Path) -> None:
    """Make the user of `server_user` the owner."""
    if os.getuid() == 0:
        for path in paths:
            os.chown(path, *_other_user())


@cache
def _other_user() -> tuple[int, int]:
    import pwd

    for name in ("nobody", "daemon", "bin"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid
    raise CannotStartError("PostgreSQL does not run as root, and there is no user `nobody`")


def start(kind: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a server in its own session, so that Ctrl-C does not stop it."""
    try:
        process = subprocess.Popen(command, start_new_session=True, **options)
    except OSError as error:
        raise cannot_start(kind, command, str(error)) from error
    (entered() / _PROCESSES / str(process.pid)).write_text(_birth(process.pid))
    return process


def cannot_start(
    kind: str, command: Sequence[str], said: str, status: int | None = None
) -> CannotStartError:
    """Return the error of a server that did not start.

    Args:
        kind: the kind of server, in a few words.
        command: the command that starts it.
        said: its output, of which the error has the end.
        status: its exit status, or None if it did not exit.
    """
    ended = "it did not answer" if status is None else f"its exit status was {status}"
    lines = [shlex.join(command), *said.strip().splitlines()[-20:], f"({ended})"]
    return CannotStartError("\n".join([f"{kind} did not start:", *lines]))


def _base() -> str:
    """Return the folder for temporary files, or another that the servers' user may enter."""
    bases = [tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"]
    for base in bases:
        enter = ["sh", "-c", 'cd "$1"', "sh", base]
        if subprocess.run(enter, stderr=subprocess.DEVNULL, cwd="/", **server_user()).returncode:
            continue
        if os.access(base, os.W_OK):
            return base
    raise CannotStartError(f"the servers' user may enter none of {', '.join(bases)}")


def _use(folder: Path) -> bool:
    """Lock a folder, so that no other run removes it; return whether it still exists."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)
        there = os.path.samestat(os.fstat(lock), (folder / _LOCK).stat())
    except FileNotFoundError:
        return False
    _locks.append(lock)  # the system releases the lock with the process
    return there


def _sweep(base: str) -> None:
    """Remove the folders of runs that were killed."""
    for folder in Path(base).glob(f"{_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError), _if_abandoned(folder) as abandoned:
            if abandoned:
                _remove(folder)


@contextlib.contextmanager
def _if_abandoned(folder: Path) -> Iterator[bool]:
    """Yield whether a folder is ours and unused; it stays locked for the block."""
    seen = folder.lstat()
    if folder.is_symlink() or seen.st_uid != os.getuid():
        yield False
        return
    try:
        lock = (folder / _LOCK).open("rb")
    except FileNotFoundError:
        yield time.time() - seen.st_mtime > _ABANDONED
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _remove(folder: Path) -> None:
    """End the servers that still run in a folder, and remove it."""
    for note in (folder / _PROCESSES).glob("*"):
        pid = int(note.name)
        birth = note.read_text()
        if birth and birth == _birth(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while folder.exists() and time.monotonic() < until:
        # Some tests leave read-only folders, and a server may still be shutting down.
        for path, folders, _ in os.walk(folder):
            for name in folders:
                with contextlib.suppress(OSError):
                    if not os.path.islink(os.path.join(path, name)):
                        os.chmod(os.path.join(path, name), 0o700)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            time.sleep(0.05)


def _birth(pid: int) -> str:
    """Return the start time of a process, which distinguishes it from others with its id."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
