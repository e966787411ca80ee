"""Fill up pages of which some records cannot be read."""

from __future__ import annotations

from typing import TypeVar

from jazzmine._compat.async_concurrency import Work
from jazzmine.records.base import Record
from jazzmine.records.repair import PartialPage

__all__ = ["filled"]

AnyRecord = TypeVar("AnyRecord", bound=Record)


async def filled(
    read: Work[list[AnyRecord]],
    subject: tuple[object, ...],
    limit: int | None,
    after: str | None,
) -> list[AnyRecord]:
    """Return a page of readable records: further ones take the place of those that are not.

    Args:
        read: the hook that reads a page; it takes the subject, a limit and an `after`.
        subject: what is listed.
        limit: how many records at most; None is no limit.
        after: the id of the last record of the page before, or None.
    """
    page = await read(*subject, limit, after)
    if not isinstance(page, PartialPage):
        return page
    records, asked = list(page), limit
    while limit is not None and isinstance(page, PartialPage) and page.rows == asked:
        asked = limit - len(records)
        page = await read(*subject, asked, page.last_id)
        records += page
    return records
