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
from pydantic_core import from_json

from jazzmine.backends.files import require_own_folder, require_regular
from jazzmine.backends.json.document import KINDS, Kind, content_of, document_of, invalid
from jazzmine.backends.json.file import Version, read_file, replace_file, version_of
from jazzmine.backends.sqlite import search
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.backends.sqlite.rows import MESSAGE_TABLES
from jazzmine.backends.sqlite.writer import Call
from jazzmine.records.base import require_stored
from jazzmine.records.types import MAX_INT
from jazzmine.records.unreadable import reasons_of


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
        self._version: Version | None = None  # of the file that was read; None is unknown
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
        return [] if require_regular(self.path) else [f"create the file {self.path}"]

    def open(self) -> None:
        """Read the file.

        Raises:
            ConfigurationError: the file is mounted alone, is not a store of this version, or has a
                record that breaks a rule.
            OSError: the file or its folder cannot be read.
            JSONDecodeError: it is not JSON.
        """
        if require_regular(self.path):
            require_own_folder(self.path)
        super().open()
        try:
            with self._use(self.timeout) as connection:
                self._update(connection)
        except BaseException:
            self.close()
            raise

    # Reads

    def is_stale(self) -> bool:
        """Whether the file differs from the one that was read."""
        return version_of(self.path) != self._version

    def _update(self, connection: sqlite3.Connection) -> None:
        content, version = read_file(self.path)
        self._version = None
        records, language = document_of(self.path, content if version else b"{}")
        # A conversation that takes the place of another one keeps its messages.
        connection.execute("PRAGMA foreign_keys = OFF")
        try:
            connection.execute("BEGIN")
            search.make(connection, language)
            for kind, lines in zip(KINDS, records, strict=True):
                self._store(connection, kind, lines)
            if language is not None:
                search.fill(connection, MAX_INT)
            for table, number, *_ in connection.execute("PRAGMA foreign_key_check"):
                raise invalid(self.path, *_alone(connection, table.decode(), number))
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("PRAGMA foreign_keys = ON")
        self._version, self._language = version, language
        self.has_search: bool = language is not None

    def _store(self, connection: sqlite3.Connection, kind: Kind, lines: Sequence[bytes]) -> None:
        """Make the records of a kind those of the file.

        A record that is the start of a page keeps its number, as long as only this library writes
        the file: the first ones that are the same stay, and a known one keeps its own if the order
        of the file allows that.
        """
        table = kind.table
        stored = connection.execute(f"SELECT seq, id, body FROM {table} ORDER BY seq").fetchall()
        same = 0
        for row, line in zip(stored, lines, strict=False):
            if row[2] != line:
                break
            same += 1
        last = stored[same - 1][0] if same else 0
        query = (
            f"SELECT max(coalesce(max(seq), 0), (SELECT last FROM message_numbers)) FROM {table}"
        )
        (highest,) = connection.execute(query).fetchone()
        connection.execute(f"DELETE FROM {table} WHERE seq > ?", [last])
        numbers = {row[1].decode(): row[0] for row in islice(stored, same, None)}
        marks = ", ".join("?" for _ in kind.columns.split(", "))
        statement = f"INSERT INTO {table} (seq, {kind.columns}) VALUES (?, {marks})"
        for index, line in enumerate(islice(lines, same, None), same):
            try:
                record: Any = kind.record.__pydantic_validator__.validate_json(line)
                require_stored(record)
                number = numbers.get(record.id, 0)
                if number <= last:
                    number = highest = highest + 1
                last = number
                connection.execute(statement, [number, *kind.values(record, line)])
            except (ValidationError, sqlite3.IntegrityError) as error:
                reason = reasons_of(error) if isinstance(error, ValidationError) else str(error)
                raise invalid(self.path, _name(kind, index, line), reason) from None

    # Writes

    def commit(self, calls: Sequence[Call]) -> bool:
        """Make the changes of some calls, and replace the file; as in a `MemoryDatabase`."""
        os.stat(os.path.dirname(self.path))  # the lock would make the folder
        # A fork waits for the thread that uses the connection, and filelock waits for the fork.
        try:
            self._file_lock.acquire()
        except Timeout:
            return False
        try:
            return super().commit(calls)
        finally:
            self._file_lock.release()

    def _keep(self, connection: sqlite3.Connection, changed: bool) -> None:
        state = search.read_state(connection)
        language = None if state is None else state.language
        if not changed and language == self._language:
            with suppress(OSError):
                os.unlink(f"{self.path}.tmp")  # of a killed process
            return
        query = "SELECT CAST(body AS BLOB) FROM {} ORDER BY seq"
        rows = [connection.execute(query.format(kind.table)) for kind in KINDS]
        content = content_of(map(chain.from_iterable, rows), language)
        # Whether the disk has it is not known while it is replaced: then it is read again.
        self._version = None
        replace_file(self.path, content, fsync=self._fsync)
        with suppress(OSError):  # it is written
            self._version = version_of(self.path)
        self._language = language


def _name(kind: Kind, index: int, line: bytes) -> str:
    fields = from_json(line)
    record_id = fields.get("id") if isinstance(fields, dict) else None
    shown = f" (id {record_id!r})" if isinstance(record_id, str) else ""
    return f"{kind.name}[{index}]{shown}"


def _alone(connection: sqlite3.Connection, table: str, number: int) -> tuple[str, str]:
    """Return the name of a record whose owner is not in the file, and the reason."""
    query = f"SELECT id FROM {table} WHERE seq = ?"
    (record_id,) = connection.execute(query, [number]).fetchone()
    section = table.removeprefix("stored_")
    return f"{section} (id {record_id.decode()!r})", "its owner is not in the file"
