"""The index that each statement uses on 200,000 messages and 50,000 traces, by EXPLAIN."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from jazzmine.backends.postgres import statements as sql
from jazzmine.backends.postgres.rows import filter_parameters
from jazzmine.backends.postgres.trace_statements import CONDITIONS, find_traces, summarize
from jazzmine.records.usage import TraceFilter
from jazzmine.sync import MessageStore
from tests.backends.postgres_plans import FILL, FILTERS, METHODS
from tests.backends.postgres_samples import bound
from tests.servers import postgres


@pytest.fixture(scope="module", params=postgres.VERSIONS)
def filled(request: pytest.FixtureRequest) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """A connection, and the name of a schema with the data."""
    version: str = request.param
    with postgres.new_schema(version) as schema:
        config = {"storage": "postgres", "dsn": postgres.dsn(version), "schema": schema}
        MessageStore.initialize(config).close()
        with postgres.connect(postgres.dsn(version)) as connection:
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
    assert indexes(filled, statement, **given) == expected


@pytest.mark.parametrize(("statement", "given", "expected"), METHODS.values(), ids=METHODS)
def test_each_method_uses_its_index_when_it_is_planned_once_for_all_values(
    filled: tuple[psycopg.Connection[Any], str],
    statement: str,
    given: dict[str, object],
    expected: set[str],
) -> None:
    connection, _ = filled
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
    conditions, given = filter_parameters(where)
    found = indexes(filled, find_traces(conditions, False, 100), **given, limit=100)
    # The newest traces are read before an index of their elements is used.
    assert found - ({"idx_tt_time"} if index.endswith("_gin") else set()) == {index}


@pytest.mark.parametrize(("where", "index"), FILTERS.values(), ids=FILTERS)
def test_each_filter_uses_its_index_after_a_trace_too(
    filled: tuple[psycopg.Connection[Any], str], where: TraceFilter, index: str
) -> None:
    conditions, given = filter_parameters(where)
    statement = find_traces(conditions, True, 100)
    found = indexes(filled, statement, **given, limit=100, after="t25000")
    # In addition to the filter's index, the planner may use another one to find older traces.
    assert found - {"idx_tt_time"} == {index, "turn_traces_pkey"} - {"idx_tt_time"}


SUMMED = {name: pair for name, pair in FILTERS.items() if name not in ("nothing", "no errors")}


@pytest.mark.parametrize("by", ["agent", "day", "model"])
@pytest.mark.parametrize(("where", "index"), SUMMED.values(), ids=SUMMED)
def test_sums_use_the_index_that_the_filter_allows(
    filled: tuple[psycopg.Connection[Any], str], where: TraceFilter, index: str, by: Any
) -> None:
    conditions, given = filter_parameters(where)
    assert indexes(filled, summarize(conditions, by), **given) == {index}


def test_the_conversations_to_prune_are_found_in_their_order(
    filled: tuple[psycopg.Connection[Any], str],
) -> None:
    cursor = {"time": -(2**63), "seq": 0}
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
    before = blocks(filled, sql.newest(20, "none", False), owner="c9", limit=20)
    # They stay there, so they are in a conversation that no other test reads.
    flagged = """
        INSERT INTO $schema.messages
            (id, conversation_id, user_id, role, original_content, timestamp, is_flagged)
        SELECT 'flagged ' || n, 'c9', 'u', 'user', 'text', 1000000 + n, true
        FROM generate_series(1, 5000) AS n"""
    connection.execute(bound(flagged, schema))
    assert blocks(filled, sql.newest(20, "none", False), owner="c9", limit=20) <= before + 5


NEW = '{"id": "new", "conversation_id": "c7", "user_id": "u", "role": "user",'
NEW += ' "original_content": "text", "timestamp": 1}'
FUNCTIONS = {
    "store message": f"jazzmine_store_message('c7', '{NEW}', 1, 1, 1)",
    "store messages": f"""jazzmine_store(
        '{{c7}}', NULL, NULL, '[{NEW}]', 1, NULL, NULL, NULL, 1, 1, 1)""",
    "append": f"""jazzmine_append(
        'c7', '{{new}}', '[{NEW}]', 1, true, NULL, true, 'm180006', NULL, 1, 1, 1)""",
    "flag": "jazzmine_flag_message('m20006', true, 1, 1, 1)",
    "delete": "jazzmine_delete_message('m20006', 1, 1, 1)",
    "delete conversation": "jazzmine_delete_conversation('c7', 1, 1, 1)",
    "edit": "jazzmine_edit_conversation('c7', 'title', '{a}', '{}', 1, 1, 1)",
    "pop": "jazzmine_pop('c7', 'm7', '1', 1, 1, 1)",
    "rewind": "jazzmine_rewind('c7', 'm180006', 1, 1, 1)",
    "fork": """jazzmine_fork('c7', 'm20006', 'new',
        '{"id": "new", "user_id": "u", "agent_id": "a", "title": "", "created_at": 1,
        "last_updated_at": 1}', 'salt', 1, 1, 1)""",
    "erase": "jazzmine_erase('u7', 20, 1, 1, 1)",
    "erase elsewhere": "jazzmine_erase('elsewhere', 20, 1, 1, 1)",
    "erase traces": "jazzmine_erase('traced', 20, 1, 1, 1)",
    "prune": "jazzmine_prune('{c0,c7}', 300000, 20, 1, 1, 1)",
}
ELSEWHERE_ROWS = """
UPDATE $schema.messages SET user_id = 'elsewhere' WHERE timestamp < 100;
UPDATE $schema.turn_traces SET user_id = 'traced' WHERE turn_number > 49900
"""


@pytest.mark.parametrize("offset", [100, 900])
def test_traces_that_are_left_out_are_counted_in_the_index(
    filled: tuple[psycopg.Connection[Any], str], offset: int
) -> None:
    page = {"owner": "a7", "limit": 20}
    first = blocks(filled, sql.traces_of_agent(20, 0), **page)
    later = blocks(filled, sql.traces_of_agent(20, offset), **page, offset=offset)
    # A look-up in an index takes three or four blocks.
    assert later <= first + 20 * 4 + 20


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
    conditions, given = filter_parameters(where)
    read = blocks(filled, find_traces(conditions, False, 20), **given, limit=20)
    assert read < 500


def test_a_rare_element_is_found_in_its_index(
    filled: tuple[psycopg.Connection[Any], str],
) -> None:
    conditions, given = filter_parameters(TraceFilter(tool={"final_data": {"n": 7}}))
    read = blocks(filled, find_traces(conditions, False, 20), **given, limit=20)
    assert read < 500


ELSEWHERE = {
    **FILTERS,
    **FREQUENT,
    "rare": TraceFilter(tool={"final_data": {"n": 49_907}}, agent_id="a7"),
    "rare and old": TraceFilter(tool={"final_data": {"n": 7}}, agent_id="a7"),
    "of other agents": TraceFilter(tool={"sandbox": "s499"}, agent_id="a7"),
    "of other agents, frequent": TraceFilter(llm_call={"latency_ms": 699}, user_id="u7"),
    "of one agent": TraceFilter(tool={"sandbox": "s57"}, agent_id="a7"),
    "in a time": TraceFilter(tool={"success": True}, started_from=10, started_until=9_000_000),
    "both": TraceFilter(tool={"success": True}, llm_call={"total_tokens": 900}),
    "few tokens": TraceFilter(tool={"success": True}, min_total_tokens=19_000),
    "nowhere": TraceFilter(tool={"mode": "nowhere"}, has_errors=False),
}


@pytest.mark.parametrize("limit", [1, 100])
@pytest.mark.parametrize("after", [None, "t25000", "t100"])
@pytest.mark.parametrize("where", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_page_has_the_traces_that_a_simple_query_finds(
    filled: tuple[psycopg.Connection[Any], str],
    where: TraceFilter | tuple[TraceFilter, str],
    after: str | None,
    limit: int,
) -> None:
    connection, schema = filled
    conditions, given = filter_parameters(where[0] if isinstance(where, tuple) else where)
    given = {**given, "limit": limit, "after": after}
    found = connection.execute(
        bound(find_traces(conditions, after is not None, limit), schema), given
    ).fetchall()
    matching = " AND ".join(["true", *(CONDITIONS[name] for name in conditions)])
    plain = f"""
        SELECT id FROM $schema.turn_traces WHERE {matching} AND (%(after)s::text IS NULL
            OR (started_at_ms, seq) < (
                SELECT started_at_ms, seq FROM $schema.turn_traces WHERE id = %(after)s))
        ORDER BY started_at_ms DESC, seq DESC LIMIT %(limit)s"""
    expected = [row[0] for row in connection.execute(bound(plain, schema), given)]
    assert [name for name, _ in found if name is not None] == expected


def test_an_element_of_medium_frequency_is_found_by_reading_on(
    filled: tuple[psycopg.Connection[Any], str],
) -> None:
    # 100 of the newest 500 traces have one of 5 modes; its index would find 10,000 traces.
    connection, schema = filled
    connection.execute(bound(MEDIUM, schema))
    conditions, given = filter_parameters(TraceFilter(tool={"mode": "mode 3"}))
    statement = find_traces(conditions, False, 100)
    rows = connection.execute(bound(statement, schema), {**given, "limit": 100}).fetchall()
    assert [json.loads(text)["turn_number"] for _, text in rows] == [
        50_000 - 2 - 5 * n for n in range(100)
    ]
    assert blocks(filled, statement, **given, limit=100) < 3_000


MEDIUM = """
UPDATE $schema.turn_traces
SET tool_traces = jsonb_set(tool_traces, '{0,mode}', to_jsonb('mode ' || turn_number % 5))
"""


# These are the last ones: the rows that they roll back stay in the tables.
@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=FUNCTIONS)
def test_the_functions_of_a_log_and_of_erasure_read_no_whole_table(
    filled: tuple[psycopg.Connection[Any], str], call: str, plan: str
) -> None:
    """Each of some 100 rows that they delete takes a few blocks in each of its indexes."""
    connection, _ = filled
    with connection.transaction(force_rollback=True):
        connection.execute(bound(ELSEWHERE_ROWS, filled[1]))
        connection.execute(f"SET LOCAL plan_cache_mode = {plan}".encode())
        connection.execute("SET LOCAL track_functions = 'none'")
        connection.execute(bound("INSERT INTO $schema.jazzmine_leases VALUES (1, 1)", filled[1]))
        # This reads the catalogs.
        blocks(filled, "SELECT $schema.jazzmine_prune('{c7}', -1, 1, 1, 1, 1)")
        connection.execute("SAVEPOINT before")
        blocks(filled, f"SELECT $schema.{call}")
        connection.execute("ROLLBACK TO before")
        read = blocks(filled, f"SELECT $schema.{call}")
    size = f"SELECT pg_relation_size('{filled[1]}.messages') / 8192"
    assert 0 < read < 1_500 < connection.execute(size.encode()).fetchall()[0][0]
