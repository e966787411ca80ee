-- New fields: metadata of a trace; provider, cached_prompt_tokens, cache_write_tokens,
-- reasoning_tokens, cost_usd, input, output and metadata of the call of a model; tool_name, call_id,
-- arguments and started_at_ms of that of a tool.

ALTER TABLE stored_messages
    ADD COLUMN is_call INTEGER NOT NULL DEFAULT 0; -- whether it is of an assistant or a colleague
UPDATE stored_messages SET is_call = 1
WHERE json_extract(body, '$.role') IN ('assistant', 'colleague_assistant');

-- The sums of what is new in the calls of models: parsing the calls of each trace would take longer.

ALTER TABLE stored_turn_traces ADD COLUMN cached_prompt_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stored_turn_traces ADD COLUMN cache_write_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stored_turn_traces ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stored_turn_traces ADD COLUMN cost_usd REAL NOT NULL DEFAULT 0;

-- With what filters ask for, so that records which do not match are not read.

DROP INDEX idx_msg_conv;
CREATE INDEX idx_msg_conv ON stored_messages
    (conversation_id, timestamp, seq, is_flagged, is_call);

DROP INDEX idx_tt_agent_time;
CREATE INDEX idx_tt_agent_time ON stored_turn_traces
    (agent_id, started_at_ms, seq, has_errors, total_tokens, total_latency_ms);
DROP INDEX idx_tt_user;
CREATE INDEX idx_tt_user ON stored_turn_traces
    (user_id, started_at_ms, seq, has_errors, total_tokens, total_latency_ms);
DROP INDEX idx_tt_intent;
CREATE INDEX idx_tt_intent ON stored_turn_traces
    (detected_intent, started_at_ms, seq, has_errors, total_tokens, total_latency_ms);
DROP INDEX idx_tt_time;
CREATE INDEX idx_tt_time ON stored_turn_traces
    (started_at_ms, seq, total_tokens, total_latency_ms);
CREATE INDEX idx_tt_agent_failed ON stored_turn_traces (agent_id, started_at_ms, seq)
    WHERE has_errors;
