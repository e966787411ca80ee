"""A database in memory whose records are those of a JSON file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from jazzmine.backends.files import require_folder, require_own_folder
from jazzmine.backends.json.document import (
    EMPTY,
    KINDS,
    SEPARATOR,
    Document,
    Kind,
    file_content,
    invalid,
    other_form,
    own_form,
)
from jazzmine.backends.json.file import MISSING, KnownFile, read_file, replace_file, version_of
from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.backends.sqlite.schema import MESSAGE_TABLES
from jazzmine.backends.sqlite.writer import Call
from jazzmine.records.base import require_stored
from jazzmine.records.types import MAX_INT

__all__ = ["JSONDatabase"]


class JSONDatabase(MemoryDatabase):
    """The records of a JSON file, read from memory; the file is replaced before a commit.

    Args:
        path: the file, which need not exist; a symbolic link is followed, and stays a link.
        fsync: whether a write waits for the disk.
        lock_timeout: how long, in s, a call waits for the writes of other processes.
    """

    def __init__(self, path: str, fsync: bool, lock_timeout: float) -> None:
        super().__init__(MESSAGE_TABLES, lock_timeout, os.path.realpath(path))
        self._fsync = fsync
        self._file: KnownFile | None = None
        self._language: str | None = None
        self._file_lock = FileLock(
            f"{self.path}.lock",
            mode=0o600,
            thread_local=False,
            blocking=False,
            fallback_to_soft=False,
        )

    def pending(self) -> list[str]:
        """Return what a write would create; nothing is changed."""
        return [] if os.path.exists(self.path) else [f"create the file {self.path}"]

    def open(self) -> None:
        """Read the file.

        Raises:
            ConfigurationError: the file is mounted alone, is not a store of this version, or has a
                record that breaks a rule.
            OSError: the file or its folder cannot be read.
            JSONDecodeError: it is not JSON.
        """
        require_folder(self.path)
        require_own_folder(self.path)
        super().open()
        try:
            with self._use(self.timeout) as connection:
                self._update(connection)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Drop everything from memory; later calls raise `StoreClosedError`."""
        super().close()
        self._file = None

    # Reads

    def is_stale(self) -> bool:
        """Whether the file differs from the one that was read."""
        file = self._file  # another thread may forget it
        return file is None or version_of(self.path) != file.version

    def _update(self, connection: sqlite3.Connection) -> None:
        content, file = read_file(self.path)
        self._file = None
        document = EMPTY if file.version == MISSING else own_form(content)
        try:
            if document is not None:
                _store(connection, document)
        except (ValidationError, sqlite3.IntegrityError):
            document = None
        if document is None:
            # Parsing the whole file accepts other forms, and finds where one is invalid.
            document = other_form(self.path, content)
            try:
                _store(connection, document)
            except sqlite3.IntegrityError as error:
                raise invalid(self.path, "a record", str(error)) from error
        self._file, self._language = file, document.search
        self.has_search: bool = document.search is not None

    # Writes

    def commit(self, calls: Sequence[Call]) -> bool:
        """Make the changes of some calls, and replace the file.

        Returns:
            False if another process writes; no call was begun.

        Raises:
            OSError: the file could not be written; nothing changed.
        """
        os.stat(os.path.dirname(self.path))  # the lock would make the folder
        # A fork waits for the thread that uses the connection, and filelock waits for the fork.
        try:
            self._file_lock.acquire()
        except Timeout:
            return False
        try:
            with self._use(self.timeout) as connection:
                if self.is_stale():
                    self._update(connection)
                self._transact(connection, calls)
        finally:
            self._file_lock.release()
        return True

    def _keep(self, connection: sqlite3.Connection, changed: bool) -> None:
        state = search.read_state(connection)
        language = None if state is None else state.language
        if not changed and language == self._language:
            with suppress(OSError):
                os.unlink(f"{self.path}.tmp")  # of a killed process
            return
        records = []
        for kind in KINDS:
            rows = connection.execute(f"SELECT CAST(body AS BLOB) FROM {kind.table} ORDER BY seq")
            records.append(SEPARATOR.join(chain.from_iterable(rows)))
        # Whether the disk has it is not known while it is replaced: then it is read again.
        replaced, self._file = self._file, None
        try:
            content = file_content(records, language)
            replace_file(self.path, content, fsync=self._fsync)
            with suppress(OSError):  # it is written
                self._file = KnownFile(self.path)
        finally:
            del replaced  # until here, so that a process without a free descriptor fails at once
        self._language = language


def _store(connection: sqlite3.Connection, document: Document) -> None:
    """Make the records of a database those of a file, in one transaction.

    Raises:
        ValidationError: a record breaks a rule.
        sqlite3.IntegrityError: two have one id, or one belongs to another that is not there.
    """
    # A conversation that takes the place of another one keeps its messages.
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        connection.execute("BEGIN")
        search.make(connection, document.search)
        for kind, lines in zip(KINDS, document.lines, strict=True):
            _store_kind(connection, kind, lines)
        if document.search is not None:
            search.fill(connection, MAX_INT)
            search.index_pending(connection)
        alone = connection.execute("PRAGMA foreign_key_check").fetchone()
        if alone is not None:
            raise sqlite3.IntegrityError(_description(connection, *alone[:2]))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA foreign_keys = ON")


def _description(connection: sqlite3.Connection, table: bytes, number: int) -> str:
    name = table.decode()
    query = f"SELECT id FROM {name} WHERE seq = ?"
    (record_id,) = connection.execute(query, [number]).fetchone()
    section = next(kind.name for kind in KINDS if kind.table == name)
    return f"the record of {section} with the id {record_id.decode()!r} has no owner in the file"


def _store_kind(connection: sqlite3.Connection, kind: Kind, lines: Sequence[bytes]) -> None:
    """Make the records of a kind those of some lines.

    A record that is the start of a page keeps its number, as long as only this library writes the
    file: the first ones that are the same stay, and a known one keeps its own if the order of the
    file allows that.
    """
    stored = connection.execute(f"SELECT seq, id, body FROM {kind.table} ORDER BY seq").fetchall()
    same = 0
    for row, line in zip(stored, lines, strict=False):
        if row[2] != line:
            break
        same += 1
    last = stored[same - 1][0] if same else 0
    unused = _highest(connection, kind)
    connection.execute(f"DELETE FROM {kind.table} WHERE seq > ?", [last])
    numbers = {row[1].decode(): row[0] for row in islice(stored, same, None)}
    marks = ", ".join("?" for _ in kind.columns.split(", "))
    statement = f"INSERT INTO {kind.table} (seq, {kind.columns}) VALUES (?, {marks})"
    for line in islice(lines, same, None):
        record: Any = kind.record.__pydantic_validator__.validate_json(line)
        require_stored(record)
        number = numbers.get(record.id, 0)
        if number <= last:
            number = unused = unused + 1
        last = number
        connection.execute(statement, [number, *kind.values(record, line)])


def _highest(connection: sqlite3.Connection, kind: Kind) -> int:
    """Return the highest number that a record of a kind has or had."""
    query = (
        f"SELECT max(coalesce(max(seq), 0), (SELECT last FROM message_numbers)) FROM {kind.table}"
    )
    highest: int = connection.execute(query).fetchone()[0]
    return highest
