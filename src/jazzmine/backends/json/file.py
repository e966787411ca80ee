"""The file of a JSON store: read after it changed, written for several callers at once."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from jazzmine.backends.json.document import file_content, read_changes
from jazzmine.backends.json.durable_file import (
    FileView,
    flush_file,
    open_durable_file,
    open_regular_file,
    replace_file,
)
from jazzmine.backends.json.lock import FileMutex
from jazzmine.backends.json.pending_changes import PendingChanges
from jazzmine.backends.json.tables import Tables
from jazzmine.change import Change
from jazzmine.deadline import Deadline
from jazzmine.errors import JazzmineError, LockTimeoutError, StoreClosedError
from jazzmine.records.repair import Repairs

__all__ = ["JSONFile"]


class JSONFile:
    """The file of a JSON store and its tables in memory, shared by threads.

    The tables have the state of the file when it was last read or written. `lock` is held while
    they are read or changed, and never during I/O.

    Args:
        path: the file, which need not exist; a symbolic link is followed, and stays a link.
        fsync: whether a write waits for the disk.
        lock_timeout: how long, in s, a call waits for the writes of other processes.
    """

    def __init__(self, path: str, fsync: bool, lock_timeout: float) -> None:
        self.path: str = os.path.realpath(path)
        self.lock: threading.Lock = threading.Lock()
        self.tables: Tables = Tables()
        self._fsync = fsync
        self._lock_timeout = lock_timeout
        self._view: FileView | None = None
        # Another process that wrote the file may have been killed before it flushed the folder.
        self._is_durable = False
        self._closed = False
        self._io = threading.Lock()
        # Closing the last descriptor of a replaced file waits until the disk has freed its
        # blocks, which takes as long as writing the new file: a thread closes it.
        self._closer = ThreadPoolExecutor(1, thread_name_prefix="jazzmine-close")
        self.repairs: Repairs = Repairs()
        self._mutex = FileMutex(self.path)

    def open(self) -> None:
        """Read the file, and remove the temporary file of a killed process.

        Raises:
            OSError: the file or its folder cannot be read.
            JSONDecodeError: it is not JSON.
            ValidationError: it is not a store, a record has no id, or two records have one id.
            LockTimeoutError: another process did not finish writing it.
        """
        deadline = Deadline(self._lock_timeout)
        os.stat(os.path.dirname(self.path))
        if os.path.lexists(f"{self.path}.tmp"):
            self._remove_stale_file()
        with self._io:
            self._read(deadline)

    def close(self) -> None:
        """Close the file; later calls raise `StoreClosedError`."""
        with self._io, self.lock:
            self._closed = True
            self._set_view(None)
        self._mutex.close()
        self._closer.shutdown()

    def after_fork(self) -> None:
        """Close the descriptors that a forked process inherited, without waiting for a lock."""
        self._mutex.close()
        if self._view is not None:
            self._view.close()
            self._view = None

    def changed(self) -> bool:
        """Return whether the file differs from the one that the tables were read from."""
        view = self._view
        return os.path.lexists(self.path) if view is None else not view.is_current()

    def refresh(self) -> None:
        """Read the file again if another process wrote it.

        Raises:
            FileNotFoundError: its folder does not exist.
            OSError, JSONDecodeError, ValidationError, LockTimeoutError: as in `open`.
        """
        deadline = Deadline(self._lock_timeout)
        with self._io:
            self._require_open()
            if self.changed():
                self._read(deadline)

    def commit(self, changes: Sequence[Change[PendingChanges]]) -> None:
        """Apply the changes and write the file; each change gets a result or an error.

        A change that has waited longer than `lock_timeout` for the lock gets a
        `LockTimeoutError`; the others stay unclaimed.

        Raises:
            OSError: the file could not be written; nothing changed.
        """
        self._require_open()
        with self._mutex.attempt(lambda: self._keep_waiting(changes)) as held:
            if held:
                with self._io:
                    self._require_open()
                    self._commit_locked([change for change in changes if change.claim()])

    def _keep_waiting(self, changes: Sequence[Change[PendingChanges]]) -> bool:
        waiting = [change for change in changes if not change.claimed]
        earliest = time.monotonic() - self._lock_timeout
        late = [change for change in waiting if change.since <= earliest and change.claim()]
        for change in late:
            change.error = self._mutex.timeout_error(self._lock_timeout)
        return bool(waiting) and not late

    def _commit_locked(self, changes: Sequence[Change[PendingChanges]]) -> None:
        try:
            self._apply(changes)
        except (OSError, MemoryError):
            if len(changes) == 1:
                raise
            # The disk may refuse one change for its size; the others must not fail with it.
            for change in changes:
                try:
                    self._apply([change])
                except (OSError, MemoryError) as error:
                    change.error = error

    def _apply(self, changes: Sequence[Change[PendingChanges]]) -> None:
        if self.changed() or not self._is_in_place():
            self._read()
        pending = PendingChanges(self.tables)
        for change in changes:
            change.error = None
            savepoint = pending.savepoint()
            try:
                change.result = change.apply(savepoint)
            except (JazzmineError, ValueError) as error:
                change.error = error
            else:
                savepoint.commit()
        if pending:
            self._write(pending)
        elif self._fsync and not self._is_durable and self._view is not None:
            # What these changes found in the file counts as stored by them.
            flush_file(self.path, self._view.fd)
            self._is_durable = True

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError("this store was closed while the call was under way")

    def _write(self, pending: PendingChanges) -> None:
        view = replace_file(self.path, file_content(self.tables, pending), fsync=self._fsync)
        self._is_durable = self._fsync
        with self.lock:
            pending.apply()
            self._set_view(view)

    def _read(self, deadline: Deadline | None = None) -> None:
        try:
            # Without a deadline, this process holds the lock for writing: no write is unfinished.
            if deadline is None:
                view = FileView(open_regular_file(self.path))
            else:
                view = open_durable_file(self.path, deadline)
        except FileNotFoundError:
            os.stat(os.path.dirname(self.path))
            with self.lock:
                self.tables = Tables()
                self._set_view(None)
            return
        self._is_durable = False
        try:
            with _collector_paused():
                pending = self._read_changes(view.fd)
                with self.lock:
                    pending.apply()
                    self._set_view(view)
        except BaseException:
            if self._view is not view:
                view.close()
            raise

    def _read_changes(self, fd: int) -> PendingChanges:
        with open(fd, "rb", closefd=False, buffering=1 << 20) as file:

            def read_all() -> bytes:
                file.seek(0)
                return file.read()

            return read_changes(self.path, self.tables, file, read_all, self.repairs)

    def _set_view(self, view: FileView | None) -> None:
        former, self._view = self._view, view
        if former is not None:
            self._close_in_background(former)

    def _close_in_background(self, view: FileView) -> None:
        try:
            self._closer.submit(view.close)
        except RuntimeError:
            # The interpreter is shutting down and starts no more threads.
            view.close()

    def _is_in_place(self) -> bool:
        # A file that was moved away is still the one that was read, but not the one at `path`.
        return self._view is None or self._view.is_at(self.path)

    def remove_leftover(self) -> None:
        """Delete the temporary file of a killed process; the caller holds the lock of the file."""
        with suppress(OSError):
            os.unlink(f"{self.path}.tmp")

    def _remove_stale_file(self) -> None:
        # The lock is needed because another process may be writing the file. A process without
        # the right to write does not remove it.
        with suppress(LockTimeoutError, OSError), self._mutex.held(timeout=0):
            self.remove_leftover()


@contextmanager
def _collector_paused() -> Iterator[None]:
    # All records of a file are kept: searching them for garbage again and again while they are
    # read takes a third of the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
