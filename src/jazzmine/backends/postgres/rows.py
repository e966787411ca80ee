"""Convert records to parameters of statements, and rows to records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES
from jazzmine.backends.postgres.text import (
    ESCAPE,
    from_json_text,
    from_text,
    json_array,
    json_text,
    to_text,
)
from jazzmine.backends.postgres.word_index import entry_of, with_entry
from jazzmine.records.base import RecordKind, Snapshot, json_of
from jazzmine.records.conversation_log import unknown_after
from jazzmine.records.hook_arguments import Append, Turn
from jazzmine.records.log import ANY, NOTHING
from jazzmine.records.rows import Row
from jazzmine.records.usage import UsageSummary
from jazzmine.search.analyser import Analyser

# Records as parameters

_TYPES = {
    table.name: tuple(table.types.items()) for table in (CONVERSATIONS, MESSAGES, TURN_TRACES)
}
_EMPTY: dict[type, str] = {list: "[]", dict: "{}"}


def row_values(table: str, snapshot: Snapshot[Any], analyser: Analyser | None) -> dict[str, object]:
    """Return the parameters of a statement of `STORE_ONE`, one for each column.

    There is no analyser without a search index.
    """
    values: dict[str, object] = dict(snapshot.record.__dict__)
    for name, kind in _TYPES[table]:
        value: Any = values[name]
        if kind == "text":
            values[name] = to_text(value.value if isinstance(value, Enum) else value)
        elif kind == "jsonb" and value is not None:
            values[name] = json_text(value) if value else _EMPTY[type(value)]
    if table == "messages":
        values["entry"] = None if analyser is None else entry_of(snapshot.record, analyser)
    return values


def whole_json(record: Snapshot[Any]) -> bytes:
    """Return the JSON of a record with all its fields, and all those of the elements of lists."""
    return json_of(record.record.__pydantic_serializer__, record.record)


def store_parameters(turn: Turn, analyser: Analyser | None) -> dict[str, object]:
    """Return the parameters of records, by the names of their tables; None for no records."""
    conversations, messages, traces = turn
    return {
        "conversations": json_array(list(map(whole_json, conversations))),
        "messages": json_array([with_entry(one.json, one.record, analyser) for one in messages]),
        "turn_traces": json_array(list(map(whole_json, traces))),
    }


def append_parameters(given: Append, analyser: Analyser | None) -> dict[str, object]:
    """Return the parameters of `APPEND`."""
    conversation_id, messages, expected_last, trace, replace_after = given
    records = [message.record for message in messages]
    turn = Turn(messages=messages, traces=[] if trace is None else [trace])
    return {
        **store_parameters(turn, analyser),
        "owner": to_text(conversation_id),
        "ids": [to_text(record.id) for record in records],
        "latest": records[-1].timestamp,
        "is_any": expected_last is ANY,
        "expected_last": to_text(expected_last) if isinstance(expected_last, str) else None,
        "is_replacing": replace_after is not NOTHING,
        "last_kept": to_text(replace_after) if isinstance(replace_after, str) else None,
    }


def rewrite_parameters(
    changed: Sequence[tuple[str, str, Snapshot[Any]]], kind: RecordKind, analyser: Analyser | None
) -> dict[str, object]:
    """Return the parameters of `REWRITE`.

    What is changed are the ids and versions as the server returned them, and the new records.
    """
    ids, versions, snapshots = zip(*changed, strict=True)
    turn = Turn(**{kind: snapshots})
    return {"ids": list(ids), "versions": list(versions), **store_parameters(turn, analyser)}


def pruned_parameter(conversations: Sequence[Row]) -> str | None:
    """Return the parameter for conversations to delete while they have their metadata."""
    return json_array([row[1].encode() for row in conversations])


# Rows


def stored_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows, each the id of a record and the record as JSON, as they were before escaping."""
    # Searching all of them at once takes a fraction of the time; an id is in its record, too.
    if ESCAPE not in ",".join([row[1] for row in rows]):
        return rows
    return [(from_text(row[0]), from_json_text(row[1])) for row in rows]


def page_of(rows: Sequence[Row], after: str | None) -> Sequence[Row]:
    """Return the rows of a page.

    Raises:
        NotFoundError: the page should start after a record that is not in the listing.
    """
    if after is not None:
        if not rows:
            raise unknown_after(after)
        if rows[0][0] is None:
            return []
    return stored_rows(rows)


_SUMMED = tuple(UsageSummary.model_fields)[1:]


def summaries(rows: Iterable[Row]) -> list[UsageSummary]:
    """Return the summaries of the groups, by descending tokens, then by key."""
    found = [
        UsageSummary(key=from_text(key), **dict(zip(_SUMMED, sums, strict=True)))
        for key, *sums in rows
    ]
    return sorted(found, key=lambda summary: (-summary.total_tokens, summary.key))
