-- Each row holds its record as JSON in "body", and copies of the fields by which records are found,
-- sorted and summed up. "seq" is the order in which ids were first stored. The views with the names
-- of the tables in PostgreSQL have a column for each field.

CREATE TABLE stored_conversations (
    seq             INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE,
    user_id         TEXT    NOT NULL,
    agent_id        TEXT    NOT NULL,
    last_updated_at INTEGER NOT NULL,
    body            TEXT    NOT NULL
);

CREATE TABLE stored_messages (
    seq             INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE,
    conversation_id TEXT    NOT NULL REFERENCES stored_conversations (id) ON DELETE CASCADE,
    user_id         TEXT    NOT NULL,
    timestamp       INTEGER NOT NULL,
    is_flagged      INTEGER NOT NULL,
    is_call         INTEGER NOT NULL, -- whether it is of an assistant or a colleague
    body            TEXT    NOT NULL
);

-- With the sums of what the calls of models have: parsing the calls of each trace would take longer.
-- Fields that are in "body" alone: metadata of a trace; provider, input, output and metadata of the
-- call of a model; tool_name, call_id, arguments and started_at_ms of that of a tool; copied_from.

CREATE TABLE stored_turn_traces (
    seq                     INTEGER PRIMARY KEY,
    id                      TEXT    NOT NULL UNIQUE,
    message_id              TEXT    NOT NULL UNIQUE
                                    REFERENCES stored_messages (id) ON DELETE CASCADE,
    conversation_id         TEXT    NOT NULL,
    user_id                 TEXT    NOT NULL,
    agent_id                TEXT    NOT NULL,
    turn_number             INTEGER NOT NULL,
    started_at_ms           INTEGER NOT NULL,
    total_latency_ms        INTEGER NOT NULL,
    total_prompt_tokens     INTEGER NOT NULL,
    total_completion_tokens INTEGER NOT NULL,
    total_tokens            INTEGER NOT NULL,
    total_energy_kwh        REAL,
    total_co2_g             REAL,
    cached_prompt_tokens    INTEGER NOT NULL,
    cache_write_tokens      INTEGER NOT NULL,
    reasoning_tokens        INTEGER NOT NULL,
    cost_usd                REAL    NOT NULL,
    unreported_calls        INTEGER NOT NULL,
    unpriced_calls          INTEGER NOT NULL,
    detected_intent         TEXT    NOT NULL,
    has_errors              INTEGER NOT NULL,
    is_copy                 INTEGER NOT NULL,
    body                    TEXT    NOT NULL
);

-- An iteration goes on after a message that was deleted: its number must not be used again.
-- AUTOINCREMENT would do that as well, but writes another page with each message.

CREATE TABLE message_numbers (last INTEGER NOT NULL);
INSERT INTO message_numbers VALUES (0);

CREATE TRIGGER keep_message_number AFTER DELETE ON stored_messages
    WHEN old.seq > (SELECT last FROM message_numbers)
BEGIN
    UPDATE message_numbers SET last = old.seq;
END;

-- One index for each listing, in the listing's own order, and with what filters ask for: records that
-- do not match are not read.

CREATE INDEX idx_conv_user ON stored_conversations (user_id, last_updated_at, seq);
CREATE INDEX idx_conv_agent ON stored_conversations (agent_id, last_updated_at, seq);
CREATE INDEX idx_conv_updated ON stored_conversations (last_updated_at, seq);

CREATE INDEX idx_msg_conv ON stored_messages
    (conversation_id, timestamp, seq, is_flagged, is_call);
CREATE INDEX idx_msg_user ON stored_messages (user_id, timestamp, seq);

CREATE INDEX idx_tt_conv ON stored_turn_traces (conversation_id, turn_number, seq);
CREATE INDEX idx_tt_agent_time ON stored_turn_traces
    (agent_id, started_at_ms, seq, has_errors, total_tokens, total_latency_ms);
CREATE INDEX idx_tt_user ON stored_turn_traces
    (user_id, started_at_ms, seq, has_errors, total_tokens, total_latency_ms);
CREATE INDEX idx_tt_time ON stored_turn_traces
    (started_at_ms, seq, total_tokens, total_latency_ms);
CREATE INDEX idx_tt_intent ON stored_turn_traces
    (detected_intent, started_at_ms, seq, has_errors, total_tokens, total_latency_ms);
CREATE INDEX idx_tt_failed ON stored_turn_traces (started_at_ms, seq) WHERE has_errors;
CREATE INDEX idx_tt_agent_failed ON stored_turn_traces (agent_id, started_at_ms, seq)
    WHERE has_errors;
