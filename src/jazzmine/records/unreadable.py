"""Stored records that cannot be read: lists leave them out with one line in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from jazzmine.records.base import Record

logger: logging.Logger = logging.getLogger(__name__)

_LOGGED_AT_MOST = 10_000

AnyRecord = TypeVar("AnyRecord", bound=Record)
AnyRow = TypeVar("AnyRow")


class Unreadable:
    """Leaves unreadable records out of lists, and logs each once."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def readable(
        self, rows: Iterable[AnyRow], read: Callable[[AnyRow], AnyRecord]
    ) -> Iterator[AnyRecord]:
        """Yield the records of rows; log and leave out the unreadable ones."""
        for row in rows:
            try:
                record = read(row)
            except ValidationError as error:
                self._log_missing(error)
            else:
                yield record

    def _log_missing(self, error: ValidationError) -> None:
        if error.title in self._logged:
            return
        if len(self._logged) >= _LOGGED_AT_MOST:
            self._logged.clear()
        self._logged.add(error.title)
        logger.error("a listing is returned without %s: %s", error.title, reasons_of(error))


def reasons_of(error: ValidationError) -> str:
    """Return the refused fields and the reasons, without the values: they are private."""
    details = error.errors(include_url=False, include_input=False)
    return "; ".join(
        ": ".join(filter(None, (".".join(map(str, detail["loc"])), detail["msg"])))
        for detail in details
        # A default that depends on other fields is not made if one of these was refused.
        if detail["type"] != "default_factory_not_called"
    )


def unreadable(
    kind: type[Record], stored_id: Any, error: ValidationError, *, hides_values: bool = False
) -> ValidationError:
    """Return the same error with the record's id and what to do, perhaps without the values."""
    remedy = "correct it where it is stored, store another in its place, or delete it"
    title = f"the stored {kind.__name__} {stored_id!a} ({remedy})"
    return titled(error, title, hides_values=hides_values)


def titled(error: ValidationError, title: str, *, hides_values: bool = False) -> ValidationError:
    """Return the same error of something that is named."""
    details = []
    for detail in error.errors(include_url=False):
        reason = PydanticCustomError(detail["type"], "{said}", {"said": detail["msg"]})
        value = None if hides_values else detail["input"]
        details.append(InitErrorDetails(type=reason, loc=detail["loc"], input=value))
    return ValidationError.from_exception_data(title, details, hide_input=hides_values)
