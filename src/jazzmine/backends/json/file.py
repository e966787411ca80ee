"""A JSON store's file: read when it changed, written for several writers at once."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from jazzmine.backends.json.change import Change
from jazzmine.backends.json.document import file_content, read_changes
from jazzmine.backends.json.durable_file import FileView, open_regular_file, replace_file
from jazzmine.backends.json.lock import FileMutex
from jazzmine.backends.json.pending_changes import PendingChanges
from jazzmine.backends.json.tables import Tables
from jazzmine.errors import JazzmineError, LockTimeoutError, StoreClosedError
from jazzmine.records.repair import Repairs

__all__ = ["JSONFile"]


class JSONFile:
    """The file of a JSON store and its tables in memory, shared by threads.

    The tables are what the file held when it was last read or written: `lock` is held
    while they are looked at, and while they are changed. It is never held during I/O.

    Args:
        path: where the file is or will be; a symbolic link is followed, and stays.
        fsync: whether a write waits for the disk.
        lock_timeout: how long, in s, a call waits for other processes' writes.
    """

    def __init__(self, path: str, fsync: bool, lock_timeout: float) -> None:
        self.path: str = os.path.realpath(path)
        self.lock: threading.Lock = threading.Lock()
        self.tables: Tables = Tables()
        self._fsync = fsync
        self._lock_timeout = lock_timeout
        self._view: FileView | None = None
        self._closed = False
        self._io = threading.Lock()
        # The last one to close a replaced file waits until the disk has freed it, which
        # takes as long as writing the new one did: a thread of its own does.
        self._janitor = ThreadPoolExecutor(1, thread_name_prefix="jazzmine-janitor")
        self.repairs: Repairs = Repairs()
        self._mutex = FileMutex(self.path)

    def open(self) -> None:
        """Read the file, and clear away what a killed process left beside it.

        Raises:
            OSError: the file, or the folder that it is to stand in, cannot be read.
            JSONDecodeError: it is not JSON.
            ValidationError: it is not a store, or a record in it has no id or stands twice.
        """
        os.stat(os.path.dirname(self.path))
        if os.path.lexists(f"{self.path}.tmp"):
            self._remove_stale_file()
        with self._io:
            self._read()

    def close(self) -> None:
        """Close the file; what is called afterwards raises `StoreClosedError`."""
        with self._io, self.lock:
            self._closed = True
            self._look_at(None)
        self._mutex.close()
        self._janitor.shutdown()

    def after_fork(self) -> None:
        """Let go of what a forked process inherited, without waiting for any lock."""
        self._mutex.close()
        if self._view is not None:
            self._view.close()
            self._view = None

    def changed(self) -> bool:
        """Return whether the file is another one than the tables were read from."""
        view = self._view
        return os.path.lexists(self.path) if view is None else not view.is_current()

    def refresh(self) -> None:
        """Read the file again if another process wrote it.

        Raises:
            FileNotFoundError: the folder that it stands in is gone.
            OSError, JSONDecodeError, ValidationError: as in `open`.
        """
        with self._io:
            self._require_open()
            if self.changed():
                self._read()

    def commit(self, changes: Sequence[Change[PendingChanges]]) -> None:
        """Write what the changes make of the file; each gets a result or an error.

        When the first of them has waited for the lock for too long, it gets a
        `LockTimeoutError`, and the others are left unclaimed.

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
            # One of them may be what the disk cannot take; the others must not fail with it.
            for change in changes:
                try:
                    self._apply([change])
                except (OSError, MemoryError) as error:
                    change.error = error

    def _apply(self, changes: Sequence[Change[PendingChanges]]) -> None:
        if self.changed() or not self._is_in_place():
            self._read()
        draft = PendingChanges(self.tables)
        for change in changes:
            change.error = None
            step = draft.step()
            try:
                change.result = change.apply(step)
            except (JazzmineError, ValueError) as error:
                change.error = error
            else:
                step.merge()
        if draft:
            self._write(draft)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError("this store was closed while the call was under way")

    def _write(self, draft: PendingChanges) -> None:
        view = replace_file(self.path, file_content(self.tables, draft), fsync=self._fsync)
        with self.lock:
            draft.apply()
            self._look_at(view)

    def _read(self) -> None:
        try:
            fd = open_regular_file(self.path)
        except FileNotFoundError:
            os.stat(os.path.dirname(self.path))
            with self.lock:
                self.tables = Tables()
                self._look_at(None)
            return
        view = FileView(fd)
        try:
            with _collector_paused():
                draft = self._read_changes(fd)
                with self.lock:
                    draft.apply()
                    self._look_at(view)
        except BaseException:
            if self._view is not view:
                view.close()
            raise

    def _read_changes(self, fd: int) -> PendingChanges:
        with open(fd, "rb", closefd=False, buffering=1 << 20) as file:

            def whole() -> bytes:
                file.seek(0)
                return file.read()

            return read_changes(self.path, self.tables, file, whole, self.repairs)

    def _look_at(self, view: FileView | None) -> None:
        if self._view is not None:
            self._let_go(self._view)
        self._view = view

    def _let_go(self, view: FileView) -> None:
        try:
            self._janitor.submit(view.close)
        except RuntimeError:
            # The interpreter is going down and starts no more threads.
            view.close()

    def _is_in_place(self) -> bool:
        # A file that was moved away is still the one that was read, but not the one at `path`.
        return self._view is None or self._view.is_at(self.path)

    def _remove_stale_file(self) -> None:
        # Not while another process writes it; and who may only read leaves it be.
        with suppress(LockTimeoutError, OSError), self._mutex.held(timeout=0):
            os.unlink(f"{self.path}.tmp")


@contextmanager
def _collector_paused() -> Iterator[None]:
    # The many records of a file are all kept: looking for garbage among them, over and over
    # while they come in, takes a third of the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
