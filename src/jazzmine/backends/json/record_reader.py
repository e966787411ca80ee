"""Copy records that are read repeatedly instead of parsing them again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from jazzmine.backends.json.tables import Row
from jazzmine.records.base import Record
from jazzmine.records.record_copy import copy_record

__all__ = ["RecordReader"]

AnyRecord = TypeVar("AnyRecord", bound=Record)


class RecordReader(Generic[AnyRecord]):
    """Reads the records of rows; the caller may change a record that is returned.

    After its second read a record is kept parsed, and copied from then on. Threads may share
    a reader.

    Args:
        parse: reads a record from its line.
        limit: the latest records are kept up to this sum of the sizes of their lines, in bytes.
            Parsed, they take about five times as much memory.
    """

    def __init__(self, parse: Callable[[bytes], AnyRecord], limit: int = 8 << 20) -> None:
        self._parse = parse
        self._limit = limit
        self._kept: deque[Row] = deque()
        self._size = 0
        self._lock = threading.Lock()

    def once(self, row: Row) -> AnyRecord:
        """Return the record of a row that is one of many; it will not be kept parsed."""
        record: AnyRecord | None = row.record
        return self._parse(row.line) if record is None else copy_record(record)

    def again(self, row: Row) -> AnyRecord:
        """Return the record of a row, and keep it parsed if it was read before."""
        record: AnyRecord | None = row.record
        if record is not None:
            return copy_record(record)
        record = self._parse(row.line)
        if row.was_read:
            self._keep(row, copy_record(record))
        row.was_read = True
        return record

    def _keep(self, row: Row, record: AnyRecord) -> None:
        with self._lock:
            if row.record is not None:
                return
            row.record = record
            self._kept.append(row)
            self._size += len(row.line)
            while self._size > self._limit:
                oldest = self._kept.popleft()
                oldest.record = None
                self._size -= len(oldest.line)
