"""A database in memory whose records are those of a JSON file."""

from __future__ import annotations

import gc
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

from jazzmine.backends.files import require_folder, require_own_folder
from jazzmine.backends.json.document import (
    EMPTY_FILE,
    Blocks,
    changed_blocks,
    file_content,
    forget_changes,
    read_file,
    watch_changes,
)
from jazzmine.backends.json.durable_file import (
    FileChanged,
    FileView,
    flush_file,
    open_view,
    replace_file,
)
from jazzmine.backends.json.lock import FileMutex, is_locked
from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite.errors import translated
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.backends.sqlite.schema import MESSAGE_TABLES
from jazzmine.backends.sqlite.transaction import Write, fail_late
from jazzmine.deadline import Deadline, backoff
from jazzmine.errors import LockTimeoutError
from jazzmine.records.repair import Repairs

__all__ = ["JSONDatabase"]

# While another process flushes a write, the file is looked at again after such pauses, in s.
_SHORTEST_POLL, _LONGEST_POLL = 0.0002, 0.002


class JSONDatabase(MemoryDatabase):
    """The records of a JSON file, read from memory; the file is written before a commit.

    The database has the state of the file when it was last read or written. One thread writes,
    and reads the file again after another process has written it.

    Args:
        path: the file, which need not exist; a symbolic link is followed, and stays a link.
        fsync: whether a write waits for the disk.
        lock_timeout: how long, in s, a call waits for the writes of other processes.
    """

    def __init__(self, path: str, fsync: bool, lock_timeout: float) -> None:
        super().__init__(MESSAGE_TABLES, os.path.realpath(path))
        self._fsync = fsync
        self._lock_timeout = lock_timeout
        self._view: FileView | None = None
        # Another process that wrote the file may have been killed before it flushed the folder.
        self._is_durable = self._is_missing = False
        self._blocks: Blocks | None = None
        self._language: str | None = None
        self._begin_closing()
        self._repairs = Repairs()
        self._mutex = FileMutex(self.path)

    def pending(self) -> list[str]:
        """Return what a write would create; nothing is changed."""
        return [] if os.path.exists(self.path) else [f"create the file {self.path}"]

    def open(self) -> None:
        """Read the file, and remove the temporary file of a killed process.

        Raises:
            ConfigurationError: the file is mounted alone.
            OSError: the file or its folder cannot be read.
            JSONDecodeError: it is not JSON.
            ValidationError: it is not a store, a record has no id, or two records have one id.
            LockTimeoutError: another process did not finish writing it.
        """
        require_folder(self.path)
        require_own_folder(self.path)
        super().open()
        try:
            self._open_file()
        except BaseException:
            super().close()
            raise

    def _open_file(self) -> None:
        watch_changes(self._open_connection())
        if os.path.lexists(f"{self.path}.tmp"):
            # A process without the right to write does not remove it.
            with suppress(OSError), self._mutex.attempt() as held:
                if held:
                    self._remove_leftover()
        pauses = backoff(_SHORTEST_POLL, _LONGEST_POLL)
        deadline = Deadline(self._lock_timeout)
        while not self._read_again():
            if deadline.expired:
                raise self._unflushed()
            time.sleep(next(pauses))

    def close(self) -> None:
        """Close the files; later calls raise `StoreClosedError`."""
        super().close()
        self._set_view(None)
        self._mutex.close()
        self._closer.shutdown()

    def in_forked_process(self, new: object) -> JSONDatabase:
        """Return this database, whose file is read again, without what the parent has locked."""
        self._mutex.close()
        self._begin_closing()
        self._set_view(None)
        self._is_missing = False
        return self

    # Reads

    def is_stale(self) -> bool:
        """Whether the file differs from the one that was read."""
        view = self._view  # a signal handler may close the store meanwhile
        if view is None:
            return not self._is_missing or os.path.lexists(self.path)
        return not view.is_current(self.path)

    def _read_again(self) -> bool:
        """Read the file if it has changed; return False while another process may undo it."""
        if not self.is_stale():
            return True
        try:
            view = open_view(self.path)
        except FileNotFoundError:
            os.stat(os.path.dirname(self.path))
            self._read_lines(EMPTY_FILE, lambda: b"{}")
            self._set_view(None)
            self._is_missing = True
            return True
        try:
            # A write that is undone loses the path before it loses the lock.
            if is_locked(view.fd) or not view.is_current(self.path):
                return False
            self._read_view(view)
        except BaseException:
            view.close()
            raise
        self._set_view(view)
        self._is_durable = False
        return True

    def _read_view(self, view: FileView) -> None:
        with open(view.fd, "rb", closefd=False, buffering=1 << 20) as file:

            def read_all() -> bytes:
                file.seek(0)
                return file.read()

            file.seek(0)
            self._read_lines(file, read_all)

    def _read_lines(self, lines: Iterable[bytes], read_all: Callable[[], bytes]) -> None:
        with self.lock, _collector_paused():
            self._long_use, self._blocks = True, None
            try:
                connection = self._open_connection()
                read_file(connection, self.path, lines, read_all, self._repairs)
                state = search.read_state(connection)
                self.has_search: bool = state is not None
                self._language = None if state is None else state.language
            except sqlite3.Error as error:
                raise translated(error, self.path) from error
            finally:
                self._long_use = False

    # Writes

    def commit(self, changes: Sequence[Write]) -> None:
        """Apply the changes and write the file; each change gets a result or an error.

        If another process writes, a change that has waited longer than `lock_timeout` gets a
        `LockTimeoutError`, and the others stay unclaimed.

        Raises:
            OSError: the file could not be written; nothing changed.
        """
        reads = [change for change in changes if change.apply == self.refresh]
        if reads:
            self._finish_reads(reads)
        writes = [change for change in changes if change.apply != self.refresh]
        if not writes:
            return
        self._open_connection()
        with self._mutex.attempt() as held:
            if not held:
                fail_late(writes, self._lock_timeout, self._mutex.timeout_error)
            else:
                self._write([change for change in writes if change.claim()])

    def _finish_reads(self, reads: Sequence[Write]) -> None:
        try:
            done = self._read_again()
        except Exception as error:
            for change in reads:
                change.fail(error)
        else:
            for change in reads if done else ():
                change.claim()
            fail_late(reads, self._lock_timeout, self._unflushed)

    def _write(self, changes: Sequence[Write]) -> None:
        # This process holds the lock, so no write is unfinished, unless it was killed.
        while not self._read_again():
            time.sleep(_SHORTEST_POLL)
        blocks = self._transact(changes, self._blocks_if_changed)
        if blocks is None:
            self._remove_leftover()
            if self._fsync and not self._is_durable and self._view is not None:
                # What these changes found in the file counts as stored by them.
                flush_file(self.path, self._view.fd)
                self._is_durable = True
            return
        try:
            content = file_content(blocks, self._language)
            view = replace_file(self.path, content, fsync=self._fsync, is_allowed=self._is_allowed)
        except FileChanged:
            for change in changes:
                change.unclaim()
            return
        # No transaction was open while the disk was written, so that reads did not wait for it. On
        # the same records, the changes do the same again.
        self._is_durable, self._is_missing, self._blocks = self._fsync, False, None
        self._set_view(None)
        self._transact([change for change in changes if change.error is None], _commit)
        self._set_view(view)
        self._blocks = blocks

    def _blocks_if_changed(self, connection: sqlite3.Connection, changed: bool) -> Blocks | None:
        state, former = search.read_state(connection), self._language
        self._language = None if state is None else state.language
        if not changed and self._language == former:
            return None
        return changed_blocks(connection, self._blocks)

    def _is_allowed(self) -> bool:
        """Whether no other process can have begun to write, as if the lock file were removed."""
        return self._mutex.is_in_place and not self.is_stale()

    def _begin_closing(self) -> None:
        # Closing the last descriptor of a replaced file waits until the disk has freed its
        # blocks, which takes as long as writing the new file: a thread closes it.
        self._closer = ThreadPoolExecutor(1, thread_name_prefix="jazzmine-close")
        self._closing: Future[None] = Future()
        self._closing.set_result(None)

    def _set_view(self, view: FileView | None) -> None:
        former, self._view = self._view, view
        if former is not None:
            self._closing.result()
            try:
                self._closing = self._closer.submit(former.close)
            except RuntimeError:  # the program ends, and starts no more threads
                former.close()

    def _remove_leftover(self) -> None:
        """Delete the temporary file of a killed process; this one holds the lock."""
        with suppress(OSError):
            os.unlink(f"{self.path}.tmp")

    def _unflushed(self, timeout: float | None = None) -> LockTimeoutError:
        return LockTimeoutError(
            f"{self.path} could not be read in time: another process writes it, and has"
            " not flushed its write to the disk"
        )


def _commit(connection: sqlite3.Connection, _: bool) -> None:
    forget_changes(connection)
    connection.execute("COMMIT")


@contextmanager
def _collector_paused() -> Iterator[None]:
    # All records of a file are parsed at once: searching them for garbage again and again takes a
    # third of the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
