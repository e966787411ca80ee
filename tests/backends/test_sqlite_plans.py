"""Each read of an SQLite store uses an index, and none sorts what an index has in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from jazzmine import TraceFilter
from jazzmine.backends.sqlite import queries, traces
from jazzmine.backends.sqlite import statements as sql
from jazzmine.backends.sqlite.connection import Connection
from jazzmine.backends.sqlite.database import Database
from jazzmine.backends.sqlite.schema import MESSAGE_TABLES
from jazzmine.records.hook_arguments import TracePage
from jazzmine.records.usage import UsageKey


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = str(tmp_path / "messages.db")
    database = Database(path, (MESSAGE_TABLES,), 5.0, "normal")
    database.open()
    database.close()
    opened = Connection(path, "normal")
    with opened.lock:
        yield opened.driver()
        opened.close()


def plan_of(connection: sqlite3.Connection, statement: str) -> str:
    names = ("source", "time", "seq")
    parameters = dict.fromkeys(names, 1) if ":seq" in statement else [1] * statement.count("?")
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
    return "\n".join(row[3] for row in rows)


def test_the_first_page_of_all_conversations_is_read_in_the_order_of_an_index(
    connection: sqlite3.Connection,
) -> None:
    plan = plan_of(connection, queries.CONVERSATIONS_BY[None, False, False].first)

    assert plan == "SCAN stored_conversations USING INDEX idx_conv_updated"


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        *((one.first, "idx_conv_") for key, one in queries.CONVERSATIONS_BY.items() if key[0]),
        *((one.next, "idx_conv_") for one in queries.CONVERSATIONS_BY.values()),
        *((listing.first, "idx_msg_") for listing in queries.MESSAGES_BY.values()),
        *((listing.next, "idx_msg_") for listing in queries.MESSAGES_BY.values()),
        *((listing.first, "idx_msg_conv") for listing in queries.NEWEST.values()),
        *((listing.next, "idx_msg_conv") for listing in queries.NEWEST.values()),
        (sql.MESSAGE_COUNT, "idx_msg_conv"),
        (sql.NEWEST_OF_ALL, "idx_msg_conv"),
        (sql.LOG_END, "idx_msg_conv"),
        (sql.NEXT_MESSAGES, "idx_msg_conv"),
        (sql.DELETE_LATER_MESSAGES, "idx_msg_conv"),
        (sql.COPIED_IDS, "idx_msg_conv"),
        (sql.TRACES_OF_CONVERSATION, "idx_tt_conv"),
        (sql.DELETE_TRACES_OF_USER, "idx_tt_user"),
        (sql.CONVERSATION_OF_USER, "idx_conv_user"),
        (sql.IS_OLD, "idx_msg_conv"),
    ],
)
def test_a_statement_searches_an_index_in_its_order(
    connection: sqlite3.Connection, statement: str, index: str
) -> None:
    plan = plan_of(connection, statement)

    assert f"INDEX {index}" in plan
    assert "TEMP B-TREE" not in plan
    assert "SCAN" not in plan


def test_the_conversations_to_prune_are_chosen_in_the_order_of_an_index(
    connection: sqlite3.Connection,
) -> None:
    plan = plan_of(connection, sql.OLD_CONVERSATIONS)

    assert "SEARCH old USING COVERING INDEX idx_conv_updated" in plan
    assert "SEARCH stored_messages USING COVERING INDEX idx_msg_conv" in plan
    assert "SCAN" not in plan


@pytest.mark.parametrize(
    "statement",
    [sql.CONVERSATION, sql.MESSAGE, sql.TRACE, sql.TRACE_OF_MESSAGE, sql.messages_by_ids(4)],
)
def test_a_record_is_found_by_its_id(connection: sqlite3.Connection, statement: str) -> None:
    assert plan_of(connection, statement).startswith("SEARCH")


FILTERS = [
    (TraceFilter(agent_id="a1"), "idx_tt_agent_time (agent_id=?)"),
    (TraceFilter(user_id="u1"), "idx_tt_user (user_id=?)"),
    (TraceFilter(intent="x"), "idx_tt_intent (detected_intent=?)"),
    (TraceFilter(conversation_id="c1"), "idx_tt_conv (conversation_id=?)"),
    (TraceFilter(agent_id="a1", started_from=1), "(agent_id=? AND started_at_ms>?)"),
    (TraceFilter(started_from=1, started_until=2), "(started_at_ms>? AND started_at_ms<?)"),
    (TraceFilter(has_errors=True), "idx_tt_failed"),
    (TraceFilter(agent_id="a1", has_errors=True), "idx_tt_agent_failed (agent_id=?)"),
    (TraceFilter(user_id="u1", has_errors=True), "idx_tt_user (user_id=?)"),
    (TraceFilter(), "idx_tt_time"),
    (TraceFilter(min_total_tokens=5), "idx_tt_time"),
    (TraceFilter(min_latency_ms=5), "idx_tt_time"),
    (TraceFilter(tool={"success": False}), "idx_tt_time"),
    (TraceFilter(agent_id="a1", llm_call={"model": "m"}), "idx_tt_agent_time (agent_id=?)"),
]


class Recorded:
    """A connection that keeps the statements which are executed on it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.statements: list[str] = []
        connection.set_trace_callback(self.statements.append)


@pytest.mark.parametrize(("where", "index"), FILTERS)
def test_traces_are_found_on_an_index(
    connection: sqlite3.Connection, where: TraceFilter, index: str
) -> None:
    recorded = Recorded(connection)
    traces.find_traces(connection, TracePage(where, 10))
    connection.set_trace_callback(None)

    plan = plan_of(connection, recorded.statements[-1])

    assert index in plan
    if where.conversation_id is None:
        assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("by", ["agent", "user", "conversation", "intent", "model", "day"])
def test_sums_read_the_traces_that_match_alone(
    connection: sqlite3.Connection, by: UsageKey
) -> None:
    recorded = Recorded(connection)
    traces.summarize(connection, TraceFilter(agent_id="a1", started_from=1), by)
    connection.set_trace_callback(None)

    plan = plan_of(connection, recorded.statements[-1])

    assert "idx_tt_agent_time (agent_id=? AND started_at_ms>?)" in plan
