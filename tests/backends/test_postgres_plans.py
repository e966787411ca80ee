"""The index that each statement uses on 200,000 messages and 50,000 traces, by EXPLAIN."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from jazzmine._sync.clients.postgres.client import PostgresClient
from jazzmine.backends.postgres import pages
from jazzmine.backends.postgres import statements as sql
from jazzmine.backends.postgres.rows import (
    append_parameters,
    row_values,
    store_parameters,
    whole_json,
)
from jazzmine.backends.postgres.trace_statements import filter_condition, find_traces, summarize
from jazzmine.config import PostgresConfig
from jazzmine.records.base import snapshot
from jazzmine.records.hook_arguments import Append, Turn
from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.usage import TraceFilter
from jazzmine.sync import MessageStore
from tests.backends.postgres_plans import FILL, FILTERS, METHODS
from tests.backends.postgres_samples import bound, config
from tests.servers import postgres


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """A connection, and the name of a schema with the data."""
    with postgres.new_schema() as schema:
        MessageStore.initialize(config(schema)).close()
        given = PostgresConfig(dsn=postgres.dsn(), timeout=600.0)
        # It has the settings of a store.
        with PostgresClient(given).apart() as connection:
            connection.deadline, connection.prepare_threshold = None, None
            # The records are known to fit, so no foreign key is checked, which takes a third.
            connection.execute("SET session_replication_role = replica")
            connection.execute(bound(FILL, schema))
            connection.execute("RESET session_replication_role")
            connection.execute(bound("VACUUM $schema.messages, $schema.turn_traces", schema))
            yield connection, schema


def indexes(
    filled: tuple[psycopg.Connection[Any], str], statement: str, **given: object
) -> set[str]:
    """The indexes that a statement uses, and "Seq Scan" if it reads a whole table."""
    connection, schema = filled
    explain = b"EXPLAIN (FORMAT JSON) " + bound(statement, schema)
    row = connection.execute(explain, given).fetchone()
    assert row is not None
    found: set[str] = set()
    nodes = [json.loads(json.dumps(row[0]))[0]["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if node["Node Type"] == "Seq Scan":
            found.add("Seq Scan")
        if "Index Name" in node:
            found.add(node["Index Name"])
        found.update(node.get("Conflict Arbiter Indexes", ()))
    return found


@pytest.mark.parametrize(("statement", "given", "expected"), METHODS.values(), ids=METHODS)
def test_each_method_uses_its_index(
    filled: tuple[psycopg.Connection[Any], str],
    statement: str,
    given: dict[str, object],
    expected: set[str],
) -> None:
    connection, _ = filled
    assert indexes(filled, statement, **given) == expected
    # Planned once for all values
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.prepare_threshold = 0
    try:
        assert indexes(filled, statement, **given) == expected
    finally:
        connection.execute("RESET plan_cache_mode")
        connection.prepare_threshold = None


@pytest.mark.parametrize(("where", "index"), FILTERS.values(), ids=FILTERS)
def test_each_filter_of_traces_uses_its_index(
    filled: tuple[psycopg.Connection[Any], str], where: TraceFilter, index: str
) -> None:
    condition, given = filter_condition(where)
    found = indexes(filled, find_traces(condition, False, 100), **given)
    # The newest traces are read before an index of their elements is used.
    assert found - ({"idx_tt_time"} if index.endswith("_gin") else set()) == {index}


SUMMED = {
    name: pair
    for name, pair in FILTERS.items()
    if name not in ("nothing", "no errors", "has_errors")
}


@pytest.mark.parametrize("by", ["agent", "day", "model"])
@pytest.mark.parametrize(("where", "index"), SUMMED.values(), ids=SUMMED)
def test_sums_use_the_index_that_the_filter_allows(
    filled: tuple[psycopg.Connection[Any], str], where: TraceFilter, index: str, by: Any
) -> None:
    condition, given = filter_condition(where)
    assert indexes(filled, summarize(condition, by), **given) == {index}


def test_the_conversations_to_prune_are_found_in_their_order(
    filled: tuple[psycopg.Connection[Any], str],
) -> None:
    cursor = {"time": -(2**63), "seq": 0, "user": None}
    found = indexes(filled, sql.OLD_CONVERSATIONS, before=300_000, limit=50, **cursor)
    assert "Seq Scan" not in found
    assert "idx_conv_updated" in found


def blocks(filled: tuple[psycopg.Connection[Any], str], statement: str, **given: object) -> int:
    """How many blocks of tables and indexes a statement reads."""
    connection, schema = filled
    explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + bound(statement, schema)
    row = connection.execute(explain, given).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def test_a_context_costs_the_same_after_flagged_messages(
    filled: tuple[psycopg.Connection[Any], str],
) -> None:
    connection, schema = filled
    before = blocks(filled, pages.newest(20, "none", False), owner="c9")
    # They stay there, so they are in a conversation that no other test reads.
    flagged = """
        INSERT INTO $schema.messages
            (id, conversation_id, user_id, role, original_content, timestamp, is_flagged)
        SELECT 'flagged ' || n, 'c9', 'u', 'user', 'text', 1000000 + n, true
        FROM generate_series(1, 5000) AS n"""
    connection.execute(bound(flagged, schema))
    assert blocks(filled, pages.newest(20, "none", False), owner="c9") <= before + 5


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
def test_a_page_of_a_long_conversation_is_read_by_itself(
    filled: tuple[psycopg.Connection[Any], str], plan: str
) -> None:
    """Most conversations are shorter than the page."""
    connection, schema = filled
    statement = pages.newest(200, "all", False)
    connection.execute(f"SET plan_cache_mode = {plan}".encode())
    connection.prepare_threshold = 0
    try:
        explain = b"EXPLAIN " + bound(statement, schema)
        found = str(connection.execute(explain, {"owner": "c9"}).fetchall())
    finally:
        connection.execute("RESET plan_cache_mode")
        connection.prepare_threshold = None
    assert "Sort" not in found, found


NEW = Message(
    id="new", conversation_id="c7", user_id="u", role=MessageRole.USER, original_content="text"
)
STORED = snapshot(NEW, Message)
COPY = snapshot(Conversation(id="new", user_id="u", agent_id="a"), Conversation)
APPENDED = append_parameters(Append("c7", [STORED], replace_after="m180006"), None)
ERASED: dict[str, object] = {"limit": 20, "newest": [2**62] * 3}
WRITES: dict[str, tuple[str, dict[str, object]]] = {
    "store message": (sql.STORE_ONE["messages"], row_values("messages", STORED, None)),
    "store messages": (sql.STORE, store_parameters(Turn(messages=[STORED]), None)),
    "append": (sql.APPEND, APPENDED),
    "flag": (sql.FLAG_MESSAGE, {"id": "m20006", "flagged": True}),
    "delete": (sql.DELETE_MESSAGE, {"id": "m20006"}),
    "delete conversation": (sql.DELETE_CONVERSATION, {"id": "c7"}),
    "pop": (sql.POP, {"owner": "c7", "id": "m7", "version": "1"}),
    "rewind": (sql.REWIND, {"owner": "c7", "after": "m180006"}),
    "fork": (
        sql.FORK,
        {"owner": "c7", "until": "m20006", "copy": whole_json(COPY).decode(), "salt": "salt"},
    ),
    "erase": (sql.ERASE, {"user": "u7", **ERASED}),
    "erase elsewhere": (sql.ERASE, {"user": "elsewhere", **ERASED}),
    "erase traces": (sql.ERASE, {"user": "traced", **ERASED}),
    "prune": (
        sql.PRUNE,
        {"given": '[{"id": "c0"}, {"id": "c7"}]', "before": 300_000, "limit": 20},
    ),
}
ELSEWHERE_ROWS = """
UPDATE $schema.messages SET user_id = 'elsewhere' WHERE timestamp < 100;
UPDATE $schema.turn_traces SET user_id = 'traced' WHERE turn_number > 49900
"""


FREQUENT = {
    "one of 3": TraceFilter(tool={"success": False}),
    "two of 3": TraceFilter(tool={"success": True}),
    "one of 3, of an agent": TraceFilter(tool={"success": False}, agent_id="a7"),
    "one of 3, in a time": TraceFilter(tool={"success": False}, started_until=25_000_000),
    "a frequent model": TraceFilter(llm_call={"prompt_tokens": 1}, user_id="u7"),
}


@pytest.mark.parametrize("where", FREQUENT.values(), ids=FREQUENT)
def test_the_cost_of_a_frequent_element_follows_the_page(
    filled: tuple[psycopg.Connection[Any], str], where: TraceFilter
) -> None:
    condition, given = filter_condition(where)
    read = blocks(filled, find_traces(condition, False, 20), **given)
    assert read < 500


def test_a_rare_element_is_found_in_its_index(
    filled: tuple[psycopg.Connection[Any], str],
) -> None:
    condition, given = filter_condition(TraceFilter(tool={"final_data": {"n": 7}}))
    read = blocks(filled, find_traces(condition, False, 20), **given)
    assert read < 500


# These are the last ones: the rows that they roll back stay in the tables.
@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(("statement", "given"), WRITES.values(), ids=WRITES)
def test_writes_read_no_whole_table(
    filled: tuple[psycopg.Connection[Any], str],
    statement: str,
    given: dict[str, object],
    plan: str,
) -> None:
    """Each of some 100 rows that they delete takes a few blocks in each of its indexes."""
    connection, _ = filled
    with connection.transaction(force_rollback=True):
        connection.execute(bound(ELSEWHERE_ROWS, filled[1]))
        connection.execute(f"SET LOCAL plan_cache_mode = {plan}".encode())
        connection.execute("SET LOCAL track_functions = 'none'")
        # This reads the catalogs.
        blocks(filled, sql.PRUNE, given='[{"id": "c7"}]', before=-1, limit=1)
        connection.execute("SAVEPOINT before")
        blocks(filled, statement, **given)
        connection.execute("ROLLBACK TO before")
        read = blocks(filled, statement, **given)
    size = f"SELECT pg_relation_size('{filled[1]}.messages') / 8192"
    assert 0 < read < 1_500 < connection.execute(size.encode()).fetchall()[0][0]
