"""Much data for PostgreSQL, and the index that each statement has to use on it."""

from __future__ import annotations

from jazzmine.backends.postgres import pages
from jazzmine.backends.postgres import statements as sql
from jazzmine.backends.postgres.trace_statements import OF_AGENT, find_traces
from jazzmine.records.usage import TraceFilter

FILL = """
INSERT INTO $schema.conversations (id, user_id, agent_id, title, created_at, last_updated_at)
SELECT 'c' || n, 'u' || n % 200, 'a' || n % 50, 'title', n, n FROM generate_series(1, 2000) AS n;

INSERT INTO $schema.messages
    (id, conversation_id, user_id, role, original_content, timestamp, is_flagged)
SELECT 'm' || n, 'c' || n % 2000 + 1, 'u' || n % 200, 'user', 'text ' || n, n, n % 100 = 0
FROM generate_series(1, 200000) AS n;

INSERT INTO $schema.turn_traces (
    id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms, ended_at_ms,
    total_latency_ms, total_tokens, detected_intent, errors, tool_traces, llm_calls)
SELECT
    't' || n, 'm' || n * 4, 'c' || n * 4 % 2000 + 1, 'u' || n % 200, 'a' || n % 50, n, n * 1000,
    n * 1000 + 5, n * 37 % 10000, n * 91 % 20000, 'intent ' || n % 100,
    CASE WHEN n % 100 = 0 THEN '["failed"]' ELSE '[]' END::jsonb,
    jsonb_build_array(jsonb_build_object(
        'sandbox', 's' || n % 500, 'success', n % 3 > 0, 'final_data', jsonb_build_object('n', n))),
    jsonb_build_array(jsonb_build_object(
        'model', 'model ' || n % 300, 'total_tokens', n % 1000, 'prompt_tokens', 1,
        'completion_tokens', 1, 'latency_ms', n % 700))
FROM generate_series(1, 50000) AS n;

ANALYZE $schema.conversations, $schema.messages, $schema.turn_traces
"""

PAGE: dict[str, object] = {"owner": "u7"}
METHODS: dict[str, tuple[str, dict[str, object], set[str]]] = {
    "conversation": (sql.CONVERSATION, {"id": "c7"}, {"conversations_pkey"}),
    "of user": (pages.conversations_page("user_id", 20, False), PAGE, {"idx_conv_user"}),
    "of user, after": (
        pages.conversations_page("user_id", 20, True),
        {**PAGE, "after": "c7"},
        {"idx_conv_user", "conversations_pkey"},
    ),
    "of agent": (
        pages.conversations_page("agent_id", 20, False),
        {**PAGE, "owner": "a7"},
        {"idx_conv_agent"},
    ),
    "of agent, after": (
        pages.conversations_page("agent_id", 20, True),
        {**PAGE, "owner": "a7", "after": "c7"},
        {"idx_conv_agent", "conversations_pkey"},
    ),
    "message": (sql.MESSAGE, {"id": "m7"}, {"messages_pkey"}),
    "messages": (sql.MESSAGES_BY_IDS, {"ids": ["m7", "m8"]}, {"messages_pkey"}),
    "in conversation": (
        pages.messages_page("conversation_id", 20, False),
        {**PAGE, "owner": "c7"},
        {"idx_msg_conv"},
    ),
    "in conversation, after": (
        pages.messages_page("conversation_id", 20, True),
        {**PAGE, "owner": "c7", "after": "m6"},
        {"idx_msg_conv", "messages_pkey"},
    ),
    "messages of user": (pages.messages_page("user_id", 20, False), PAGE, {"idx_msg_user"}),
    "messages of user, after": (
        pages.messages_page("user_id", 20, True),
        {**PAGE, "after": "m7"},
        {"idx_msg_user", "messages_pkey"},
    ),
    "next messages": (
        pages.next_messages(500),
        {"owner": "c7", "timestamp": 9, "seq": 9},
        {"idx_msg_conv"},
    ),
    "context": (
        pages.newest(20, "none", False),
        {"owner": "c7"},
        {"idx_msg_visible"},
    ),
    "context window": (
        pages.newest(20, "calls", False),
        {"owner": "c7"},
        {"idx_msg_visible", "idx_msg_flagged_calls"},
    ),
    "context window, after": (
        pages.newest(20, "calls", True),
        {"owner": "c7", "after": "m6"},
        {"idx_msg_visible", "idx_msg_flagged_calls", "messages_pkey"},
    ),
    "newest of all, after": (
        pages.newest(20, "all", True),
        {"owner": "c7", "after": "m6"},
        {"idx_msg_conv", "messages_pkey"},
    ),
    "counts": (sql.MESSAGE_COUNTS, {"ids": ["c7", "c8"]}, {"idx_msg_conv"}),
    "trace": (sql.TRACE, {"id": "t7"}, {"turn_traces_pkey"}),
    "trace of message": (sql.TRACE_OF_MESSAGE, {"id": "m8"}, {"turn_traces_message_id_key"}),
    "traces of conversation": (sql.TRACES_OF_CONVERSATION, {"owner": "c5"}, {"idx_tt_conv"}),
    "traces of agent, later": (
        find_traces(OF_AGENT, False, 100, 100),
        {"agent_id": "a7", "offset": 100},
        {"idx_tt_agent_time"},
    ),
}

FILTERS: dict[str, tuple[TraceFilter, str]] = {
    "nothing": (TraceFilter(), "idx_tt_time"),
    "agent_id": (TraceFilter(agent_id="a7"), "idx_tt_agent_time"),
    "user_id": (TraceFilter(user_id="u7"), "idx_tt_user"),
    "conversation_id": (TraceFilter(conversation_id="c5"), "idx_tt_conv"),
    "intent": (TraceFilter(intent="intent 7"), "idx_tt_intent"),
    "started": (TraceFilter(started_from=900_000, started_until=950_000), "idx_tt_time"),
    "agent and time": (
        TraceFilter(agent_id="a7", started_from=900_000, started_until=5_000_000),
        "idx_tt_agent_time",
    ),
    "min_total_tokens": (TraceFilter(min_total_tokens=19_990), "idx_tt_tokens"),
    "min_latency_ms": (TraceFilter(min_latency_ms=9_995), "idx_tt_latency"),
    "has_errors": (TraceFilter(has_errors=True), "idx_tt_failed"),
    "no errors": (TraceFilter(has_errors=False), "idx_tt_time"),
    "tool": (TraceFilter(tool={"sandbox": "s7", "success": False}), "idx_tt_tool_gin"),
    "tool, nested": (TraceFilter(tool={"final_data": {"n": 7}}), "idx_tt_tool_gin"),
    "llm_call": (TraceFilter(llm_call={"model": "model 7"}), "idx_tt_llm_gin"),
}
