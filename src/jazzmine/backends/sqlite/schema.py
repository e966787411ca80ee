"""The tables of a message store, and the views that show their records field by field."""

from __future__ import annotations

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES, Table
from jazzmine.backends.sqlite.migrations import Component


def _view(table: Table) -> str:
    columns = ", ".join(
        f"{_column(name, default)} AS {name}" for name, default in table.defaults.items()
    )
    return f"SELECT {columns}, seq FROM stored_{table.name}"


def _column(name: str, default: str | None) -> str:
    value = f"json_extract(body, '$.{name}')"
    return value if default is None else f"coalesce({value}, {default})"


MESSAGE_TABLES = Component(
    "messages", {table.name: _view(table) for table in (CONVERSATIONS, MESSAGES, TURN_TRACES)}
)
