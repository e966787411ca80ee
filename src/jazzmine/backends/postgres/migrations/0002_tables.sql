-- The tables and their indexes. "seq" is the order in which ids were first stored.

$created_tables

-- One index for each listing, in the order of the listing, and one for each filter.

CREATE INDEX idx_conv_user ON $schema.conversations (user_id, last_updated_at DESC, seq DESC);
CREATE INDEX idx_conv_agent ON $schema.conversations (agent_id, last_updated_at DESC, seq DESC);

CREATE INDEX idx_conv_updated ON $schema.conversations (last_updated_at, seq);
CREATE INDEX idx_conv_metadata ON $schema.conversations USING gin (metadata jsonb_path_ops);

CREATE INDEX idx_msg_conv ON $schema.messages (conversation_id, timestamp, seq);
CREATE INDEX idx_msg_user ON $schema.messages (user_id, timestamp, seq);
CREATE INDEX idx_msg_flagged ON $schema.messages (conversation_id, timestamp) WHERE is_flagged;
-- For context windows: those that are not flagged, and the flagged ones whose tools' answers refer to them.
CREATE INDEX idx_msg_visible ON $schema.messages (conversation_id, timestamp, seq)
    WHERE NOT is_flagged;
CREATE INDEX idx_msg_flagged_calls ON $schema.messages (conversation_id, timestamp, seq)
    WHERE is_flagged AND role IN ('assistant', 'colleague_assistant');

CREATE INDEX idx_tt_conv ON $schema.turn_traces (conversation_id, turn_number, seq);
CREATE INDEX idx_tt_agent_time ON $schema.turn_traces (agent_id, started_at_ms DESC, seq DESC);
CREATE INDEX idx_tt_user ON $schema.turn_traces (user_id, started_at_ms DESC, seq DESC);
CREATE INDEX idx_tt_time ON $schema.turn_traces (started_at_ms DESC, seq DESC);
CREATE INDEX idx_tt_intent ON $schema.turn_traces (detected_intent, started_at_ms DESC, seq DESC);
CREATE INDEX idx_tt_tokens ON $schema.turn_traces (total_tokens DESC);
CREATE INDEX idx_tt_latency ON $schema.turn_traces (total_latency_ms DESC);
CREATE INDEX idx_tt_failed ON $schema.turn_traces (started_at_ms DESC, seq DESC)
    WHERE errors <> '[]';

-- This operator class supports only containment: half as large, and cheaper to write.
CREATE INDEX idx_tt_tool_gin ON $schema.turn_traces USING gin (tool_traces jsonb_path_ops);
CREATE INDEX idx_tt_llm_gin ON $schema.turn_traces USING gin (llm_calls jsonb_path_ops);
CREATE INDEX idx_tt_errors_gin ON $schema.turn_traces USING gin (errors jsonb_path_ops);
