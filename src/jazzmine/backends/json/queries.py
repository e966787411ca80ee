"""Find rows in the tables by their indexes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile
from operator import attrgetter

from jazzmine.backends.json.lines import read_trace
from jazzmine.backends.json.tables import Index, MessageRow, Tables, TraceRow
from jazzmine.backends.trace_queries import matches
from jazzmine.errors import NotFoundError
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter

__all__ = ["candidate_rows", "newest_rows", "old_conversations", "traces_found"]


def newest_rows(
    tables: Tables, conversation_id: str, calls: bool, limit: int, after: str | None
) -> list[MessageRow]:
    """Return a page of the messages that are not flagged, and of flagged calls, newest first.

    Raises:
        NotFoundError: `after` is the id of no message of the conversation.
    """
    start = None
    if after is not None:
        everything = tables.messages_by["conversation_id"]
        start = everything.member(conversation_id, tables.messages.get(after), after)
    rows = tables.visible_messages.last(conversation_id, limit, start)
    flagged = tables.flagged_calls.last(conversation_id, limit, start) if calls else ()
    if flagged:
        rows = sorted([*rows, *flagged], key=attrgetter("timestamp", "sequence"))[: -limit - 1 : -1]
    return rows


def old_conversations(tables: Tables, before: int) -> list[str]:
    """Return the ids of the conversations with an earlier `last_updated_at`, oldest first."""
    rows = tables.conversations_by_update.rows("")
    return [row.id for row in takewhile(lambda row: row.last_updated_at < before, rows)]


def candidate_rows(tables: Tables, where: TraceFilter, after: str | None) -> list[TraceRow]:
    """Return the rows that an index finds for a filter, newest first, after the trace `after`.

    Raises:
        NotFoundError: `after` is the id of no trace.
    """
    start = None
    if after is not None:
        start = tables.traces.get(after)
        if start is None:
            raise NotFoundError(f"after={after!r} is the id of no trace")
    index, group = _narrowest(tables, where)
    return index.last(group, None, start)


def _narrowest(tables: Tables, where: TraceFilter) -> tuple[Index[TraceRow], str]:
    if where.conversation_id is not None:
        return tables.traces_by_conversation, where.conversation_id
    if where.user_id is not None:
        return tables.traces_by_user, where.user_id
    if where.agent_id is not None:
        return tables.traces_by_agent, where.agent_id
    return tables.traces_by_start, ""


def traces_found(
    rows: Iterable[TraceRow], where: TraceFilter, limit: int | None, repairs: Repairs
) -> list[TurnTrace]:
    """Return the traces of the rows that match a filter and can be read, at most `limit`."""
    candidates = (row for row in rows if _may_match(row, where))
    traces = repairs.readable(candidates, lambda row: read_trace(row.line))
    return list(islice((trace for trace in traces if matches(where, trace)), limit))


def _may_match(row: TraceRow, where: TraceFilter) -> bool:
    """Return False if the row alone shows that its trace does not match."""
    return (
        (where.agent_id is None or row.agent_id == where.agent_id)
        and (where.user_id is None or row.user_id == where.user_id)
        and (where.started_from is None or row.started_at_ms >= where.started_from)
        and (where.started_until is None or row.started_at_ms < where.started_until)
    )
