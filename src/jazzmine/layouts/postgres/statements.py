"""Every statement that the store runs, by name; `$schema` is where the tables are.

Records come as one JSON parameter and are taken apart by the server. What a record leaves out has
its default value. Numbers beyond what a column holds never get here: records are checked before.
"""

from __future__ import annotations

from typing import Literal

__all__ = [
    "CONVERSATION",
    "CONVERSATIONS_OF_AGENT",
    "CONVERSATIONS_OF_AGENT_AFTER",
    "CONVERSATIONS_OF_USER",
    "CONVERSATIONS_OF_USER_AFTER",
    "CONVERSATION_COLUMNS",
    "DELETE_CONVERSATION",
    "DELETE_MESSAGE",
    "FLAG_MESSAGE",
    "MESSAGE",
    "MESSAGES",
    "MESSAGES_OF_CONVERSATION",
    "MESSAGES_OF_CONVERSATION_AFTER",
    "MESSAGES_OF_USER",
    "MESSAGES_OF_USER_AFTER",
    "MESSAGE_COLUMNS",
    "MISSING_CONVERSATIONS",
    "NEWEST_VISIBLE",
    "NEXT_MESSAGES",
    "PING",
    "STORE_CONVERSATION",
    "STORE_MESSAGE",
    "STORE_MESSAGES",
    "STORE_TRACE",
    "TRACE",
    "TRACES_OF_AGENT",
    "TRACES_OF_CONVERSATION",
    "TRACE_COLUMNS",
    "TRACE_OF_MESSAGE",
    "store_turn",
]

PING = "SELECT 1"

# What is read of each table: the fields of the record, nested ones as text, and `seq` behind them.

CONVERSATION_COLUMNS = """
    id, user_id, agent_id, title, created_at, last_updated_at, metadata::text AS metadata, seq"""

MESSAGE_COLUMNS = """
    id, conversation_id, user_id, role, original_content, enhanced_message,
    explicit_context::text AS explicit_context, episode_id, sentiment_score, intent,
    entities::text AS entities, is_cancellation, is_continuation, is_flagged, timestamp,
    invoked_flows::text AS invoked_flows, invoked_tools::text AS invoked_tools,
    reasoning_steps::text AS reasoning_steps, errors::text AS errors,
    metadata::text AS metadata, seq"""

TRACE_COLUMNS = """
    id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms, ended_at_ms,
    total_latency_ms, total_prompt_tokens, total_completion_tokens, total_tokens,
    llm_calls::text AS llm_calls, task_emissions::text AS task_emissions,
    tool_traces::text AS tool_traces, emission_records::text AS emission_records,
    slot_events::text AS slot_events, confirmation_events::text AS confirmation_events,
    flow_events::text AS flow_events, reasoning_steps::text AS reasoning_steps,
    errors::text AS errors, total_energy_kwh, total_co2_g, detected_intent,
    detected_entities::text AS detected_entities, sentiment_score, is_continuation,
    is_cancellation, seq"""

# Writes

STORE_CONVERSATION = """
INSERT INTO $schema.conversations AS stored
    (id, user_id, agent_id, title, created_at, last_updated_at, metadata)
SELECT id, user_id, agent_id, title, created_at, last_updated_at, coalesce(metadata, '{}')
FROM json_to_record(%(conversation)s::json) AS given (
    id text, user_id text, agent_id text, title text, created_at bigint, last_updated_at bigint,
    metadata jsonb)
ON CONFLICT (id) DO UPDATE SET
    user_id = excluded.user_id,
    agent_id = excluded.agent_id,
    title = excluded.title,
    created_at = excluded.created_at,
    last_updated_at = excluded.last_updated_at,
    metadata = excluded.metadata
"""

_MESSAGE_FIELDS = """
    id, conversation_id, user_id, role, original_content, enhanced_message, explicit_context,
    episode_id, sentiment_score, intent, entities, is_cancellation, is_continuation, is_flagged,
    timestamp, invoked_flows, invoked_tools, reasoning_steps, errors, metadata"""

_MESSAGE_VALUES = """
    id, conversation_id, user_id, role, original_content, coalesce(enhanced_message, ''),
    explicit_context, coalesce(episode_id, 0), coalesce(sentiment_score, 0),
    coalesce(intent, 'unknown'), coalesce(entities, '[]'), coalesce(is_cancellation, false),
    coalesce(is_continuation, true), coalesce(is_flagged, false), timestamp, invoked_flows,
    invoked_tools, reasoning_steps, errors, coalesce(metadata, '{}')"""

_GIVEN_MESSAGES = """
    json_to_recordset(%(messages)s::json) AS given (
    id text, conversation_id text, user_id text, role text, original_content text,
    enhanced_message text, explicit_context jsonb, episode_id bigint, sentiment_score float8,
    intent text, entities jsonb, is_cancellation boolean, is_continuation boolean,
    is_flagged boolean, timestamp bigint, invoked_flows jsonb, invoked_tools jsonb,
    reasoning_steps jsonb, errors jsonb, metadata jsonb)"""

_REPLACE_MESSAGE = """
ON CONFLICT (id) DO UPDATE SET
    conversation_id = excluded.conversation_id,
    user_id = excluded.user_id,
    role = excluded.role,
    original_content = excluded.original_content,
    enhanced_message = excluded.enhanced_message,
    explicit_context = excluded.explicit_context,
    episode_id = excluded.episode_id,
    sentiment_score = excluded.sentiment_score,
    intent = excluded.intent,
    entities = excluded.entities,
    is_cancellation = excluded.is_cancellation,
    is_continuation = excluded.is_continuation,
    is_flagged = excluded.is_flagged,
    timestamp = excluded.timestamp,
    invoked_flows = excluded.invoked_flows,
    invoked_tools = excluded.invoked_tools,
    reasoning_steps = excluded.reasoning_steps,
    errors = excluded.errors,
    metadata = excluded.metadata
"""

STORE_MESSAGE = f"""
INSERT INTO $schema.messages AS stored ({_MESSAGE_FIELDS})
SELECT {_MESSAGE_VALUES}
FROM {_GIVEN_MESSAGES}
{_REPLACE_MESSAGE}
"""

# Numbered in the order given, and locked in that of the ids: two calls with the same messages in
# opposite orders would each wait for the other's.
STORE_MESSAGES = f"""
INSERT INTO $schema.messages AS stored ({_MESSAGE_FIELDS}, seq)
SELECT {_MESSAGE_VALUES}, seq
FROM (
    SELECT *, nextval((SELECT pg_get_serial_sequence('$schema.messages', 'seq')::regclass)) AS seq
    FROM {_GIVEN_MESSAGES}
) AS numbered
ORDER BY id
{_REPLACE_MESSAGE}
"""

# A trace's JSON holds all fields, those of its elements too: filters look at them. A trace in
# place of another of the same message is stored last; an id of another message is a conflict.
STORE_TRACE = """
INSERT INTO $schema.turn_traces AS stored (
    id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms, ended_at_ms,
    total_latency_ms, total_prompt_tokens, total_completion_tokens, total_tokens, llm_calls,
    task_emissions, tool_traces, emission_records, slot_events, confirmation_events, flow_events,
    reasoning_steps, errors, total_energy_kwh, total_co2_g, detected_intent, detected_entities,
    sentiment_score, is_continuation, is_cancellation)
SELECT
    id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms, ended_at_ms,
    total_latency_ms, total_prompt_tokens, total_completion_tokens, total_tokens, llm_calls,
    task_emissions, tool_traces, emission_records, slot_events, confirmation_events, flow_events,
    reasoning_steps, errors, total_energy_kwh, total_co2_g, detected_intent, detected_entities,
    sentiment_score, is_continuation, is_cancellation
FROM json_to_record(%(trace)s::json) AS given (
    id text, message_id text, conversation_id text, user_id text, agent_id text,
    turn_number bigint, started_at_ms bigint, ended_at_ms bigint, total_latency_ms bigint,
    total_prompt_tokens bigint, total_completion_tokens bigint, total_tokens bigint,
    llm_calls jsonb, task_emissions jsonb, tool_traces jsonb, emission_records jsonb,
    slot_events jsonb, confirmation_events jsonb, flow_events jsonb, reasoning_steps jsonb,
    errors jsonb, total_energy_kwh float8, total_co2_g float8, detected_intent text,
    detected_entities jsonb, sentiment_score float8, is_continuation boolean,
    is_cancellation boolean)
ON CONFLICT (message_id) DO UPDATE SET
    id = excluded.id,
    conversation_id = excluded.conversation_id,
    user_id = excluded.user_id,
    agent_id = excluded.agent_id,
    turn_number = excluded.turn_number,
    started_at_ms = excluded.started_at_ms,
    ended_at_ms = excluded.ended_at_ms,
    total_latency_ms = excluded.total_latency_ms,
    total_prompt_tokens = excluded.total_prompt_tokens,
    total_completion_tokens = excluded.total_completion_tokens,
    total_tokens = excluded.total_tokens,
    llm_calls = excluded.llm_calls,
    task_emissions = excluded.task_emissions,
    tool_traces = excluded.tool_traces,
    emission_records = excluded.emission_records,
    slot_events = excluded.slot_events,
    confirmation_events = excluded.confirmation_events,
    flow_events = excluded.flow_events,
    reasoning_steps = excluded.reasoning_steps,
    errors = excluded.errors,
    total_energy_kwh = excluded.total_energy_kwh,
    total_co2_g = excluded.total_co2_g,
    detected_intent = excluded.detected_intent,
    detected_entities = excluded.detected_entities,
    sentiment_score = excluded.sentiment_score,
    is_continuation = excluded.is_continuation,
    is_cancellation = excluded.is_cancellation,
    seq = CASE WHEN stored.id = excluded.id THEN stored.seq ELSE excluded.seq END
"""

FLAG_MESSAGE = "UPDATE $schema.messages SET is_flagged = %(flagged)s WHERE id = %(id)s"

# Messages and traces go with what they belong to.
DELETE_CONVERSATION = "DELETE FROM $schema.conversations WHERE id = %(id)s"
DELETE_MESSAGE = "DELETE FROM $schema.messages WHERE id = %(id)s"


def store_turn(conversation: bool, messages: bool, trace: bool) -> str:
    """Return one statement that stores the parts that are there: all of them or none."""
    parts = []
    if conversation:
        parts.append(STORE_CONVERSATION)
    if messages:
        parts.append(STORE_MESSAGE)
    if trace:
        parts.append(STORE_TRACE)
    # References are checked at the end of the statement, when all parts are there.
    first = [f"part_{n} AS ({sql} RETURNING 1)" for n, sql in enumerate(parts[:-1])]
    return ("WITH " + ", ".join(first) if first else "") + parts[-1]


# Reads of one record

CONVERSATION = f"SELECT {CONVERSATION_COLUMNS} FROM $schema.conversations WHERE id = %(id)s"
MESSAGE = f"SELECT {MESSAGE_COLUMNS} FROM $schema.messages WHERE id = %(id)s"
TRACE = f"SELECT {TRACE_COLUMNS} FROM $schema.turn_traces WHERE id = %(id)s"
TRACE_OF_MESSAGE = f"SELECT {TRACE_COLUMNS} FROM $schema.turn_traces WHERE message_id = %(id)s"

MISSING_CONVERSATIONS = """
SELECT id FROM unnest(%(ids)s::text[]) AS wanted (id)
WHERE NOT EXISTS (SELECT FROM $schema.conversations AS stored WHERE stored.id = wanted.id)
"""

# Listings

MESSAGES = f"""
SELECT {MESSAGE_COLUMNS}
FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS wanted (wanted_id, place)
JOIN $schema.messages ON id = wanted_id
ORDER BY place
"""

NEWEST_VISIBLE = f"""
SELECT * FROM (
    SELECT {MESSAGE_COLUMNS}
    FROM $schema.messages
    WHERE conversation_id = %(owner)s AND NOT is_flagged
    ORDER BY timestamp DESC, seq DESC
    LIMIT %(limit)s
) AS newest
ORDER BY timestamp, seq
"""

NEXT_MESSAGES = f"""
SELECT {MESSAGE_COLUMNS}
FROM $schema.messages
WHERE conversation_id = %(owner)s AND (timestamp, seq) > (%(timestamp)s, %(seq)s)
ORDER BY timestamp, seq
LIMIT %(limit)s
"""

TRACES_OF_CONVERSATION = f"""
SELECT {TRACE_COLUMNS}
FROM $schema.turn_traces
WHERE conversation_id = %(owner)s
ORDER BY turn_number, seq
"""

TRACES_OF_AGENT = f"""
SELECT {TRACE_COLUMNS}
FROM $schema.turn_traces
WHERE agent_id = %(owner)s
ORDER BY started_at_ms DESC, seq DESC
LIMIT %(limit)s OFFSET %(offset)s
"""


def _first_conversations(owner: Literal["user_id", "agent_id"]) -> str:
    return f"""
SELECT {CONVERSATION_COLUMNS}
FROM $schema.conversations
WHERE {owner} = %(owner)s
ORDER BY last_updated_at DESC, seq DESC
LIMIT %(limit)s
"""


def _first_messages(owner: Literal["conversation_id", "user_id"]) -> str:
    return f"""
SELECT {MESSAGE_COLUMNS}
FROM $schema.messages
WHERE {owner} = %(owner)s
ORDER BY timestamp, seq
LIMIT %(limit)s
"""


# A page behind a record: no row at all says that the record is not in the listing, one row of
# nulls that nothing stands behind it.


def _conversations_after(owner: Literal["user_id", "agent_id"]) -> str:
    return f"""
SELECT page.*
FROM (
    SELECT last_updated_at, seq FROM $schema.conversations
    WHERE id = %(after)s AND {owner} = %(owner)s
) AS mark
LEFT JOIN LATERAL (
    SELECT {CONVERSATION_COLUMNS}
    FROM $schema.conversations
    WHERE {owner} = %(owner)s AND (last_updated_at, seq) < (mark.last_updated_at, mark.seq)
    ORDER BY last_updated_at DESC, seq DESC
    LIMIT %(limit)s
) AS page ON true
ORDER BY page.last_updated_at DESC, page.seq DESC
"""


def _messages_after(owner: Literal["conversation_id", "user_id"]) -> str:
    return f"""
SELECT page.*
FROM (
    SELECT timestamp, seq FROM $schema.messages
    WHERE id = %(after)s AND {owner} = %(owner)s
) AS mark
LEFT JOIN LATERAL (
    SELECT {MESSAGE_COLUMNS}
    FROM $schema.messages
    WHERE {owner} = %(owner)s AND (timestamp, seq) > (mark.timestamp, mark.seq)
    ORDER BY timestamp, seq
    LIMIT %(limit)s
) AS page ON true
ORDER BY page.timestamp, page.seq
"""


CONVERSATIONS_OF_USER = _first_conversations("user_id")
CONVERSATIONS_OF_USER_AFTER = _conversations_after("user_id")
CONVERSATIONS_OF_AGENT = _first_conversations("agent_id")
CONVERSATIONS_OF_AGENT_AFTER = _conversations_after("agent_id")
MESSAGES_OF_CONVERSATION = _first_messages("conversation_id")
MESSAGES_OF_CONVERSATION_AFTER = _messages_after("conversation_id")
MESSAGES_OF_USER = _first_messages("user_id")
MESSAGES_OF_USER_AFTER = _messages_after("user_id")
