-- Stores conversations, messages with different ids, and traces of different messages, all of them or none. Each
-- kind is an array of objects, or null; a message is without the fields that have their default. A trace that
-- replaces another one of the same message is stored last.

CREATE OR REPLACE FUNCTION $schema.jazzmine_store(conversations json, messages json, traces json) RETURNS void
    LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    written bigint;
    reason text;
BEGIN
    IF conversations IS NOT NULL THEN
        INSERT INTO $schema.conversations AS stored (
            id, user_id, agent_id, title, created_at, last_updated_at, metadata)
        SELECT * FROM json_to_recordset(conversations) AS given (
            id text, user_id text, agent_id text, title text, created_at bigint, last_updated_at bigint,
            metadata jsonb)
        ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, agent_id = excluded.agent_id,
            title = excluded.title, created_at = excluded.created_at,
            last_updated_at = excluded.last_updated_at, metadata = excluded.metadata;
    END IF;
    IF messages IS NOT NULL THEN
        INSERT INTO $schema.messages AS stored (
            id, conversation_id, user_id, role, original_content, enhanced_message, explicit_context, episode_id,
            sentiment_score, intent, entities, is_cancellation, is_continuation, is_flagged, timestamp,
            invoked_flows, invoked_tools, reasoning_steps, errors, metadata, entry)
        SELECT id, conversation_id, user_id, role, original_content, coalesce(enhanced_message, ''),
            explicit_context, coalesce(episode_id, 0), coalesce(sentiment_score, 0.0),
            coalesce(intent, 'unknown'), coalesce(entities, '[]'), coalesce(is_cancellation, false),
            coalesce(is_continuation, true), coalesce(is_flagged, false), timestamp, invoked_flows,
            invoked_tools, reasoning_steps, errors, coalesce(metadata, '{}'), entry
        FROM json_to_recordset(messages) AS given (
            id text, conversation_id text, user_id text, role text, original_content text,
            enhanced_message text, explicit_context jsonb, episode_id bigint, sentiment_score float8,
            intent text, entities jsonb, is_cancellation boolean, is_continuation boolean,
            is_flagged boolean, timestamp bigint, invoked_flows jsonb, invoked_tools jsonb,
            reasoning_steps jsonb, errors jsonb, metadata jsonb, entry text)
        ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, role = excluded.role,
            original_content = excluded.original_content, enhanced_message = excluded.enhanced_message,
            explicit_context = excluded.explicit_context, episode_id = excluded.episode_id,
            sentiment_score = excluded.sentiment_score, intent = excluded.intent,
            entities = excluded.entities, is_cancellation = excluded.is_cancellation,
            is_continuation = excluded.is_continuation, is_flagged = excluded.is_flagged,
            timestamp = excluded.timestamp, invoked_flows = excluded.invoked_flows,
            invoked_tools = excluded.invoked_tools, reasoning_steps = excluded.reasoning_steps,
            errors = excluded.errors, metadata = excluded.metadata, entry = excluded.entry
        WHERE stored.conversation_id = excluded.conversation_id;
        GET DIAGNOSTICS written = ROW_COUNT;
        IF written < json_array_length(messages) THEN
            reason := (
                SELECT format('message %L is stored in another conversation than %L', id, conversation_id)
                FROM json_to_recordset(messages) AS given (id text, conversation_id text)
                WHERE NOT EXISTS (
                    SELECT FROM $schema.messages AS stored
                    WHERE stored.id = given.id AND stored.conversation_id = given.conversation_id)
                LIMIT 1);
            RAISE EXCEPTION USING MESSAGE = reason;
        END IF;
    END IF;
    IF traces IS NOT NULL THEN
        -- Each by itself, for a plan that stays good. One whose message is not stored is refused by its key.
        reason := (
            SELECT format('trace %L is of a message that is not in conversation %L', id, conversation_id)
            FROM json_to_recordset(traces) AS given (id text, message_id text, conversation_id text),
                LATERAL (SELECT conversation_id AS owner FROM $schema.messages
                    WHERE id = given.message_id LIMIT 1) AS found
            WHERE found.owner <> conversation_id LIMIT 1);
        IF reason IS NOT NULL THEN
            RAISE EXCEPTION USING MESSAGE = reason;
        END IF;
        INSERT INTO $schema.turn_traces AS stored (
            id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms, ended_at_ms,
            total_latency_ms, total_prompt_tokens, total_completion_tokens, total_tokens, llm_calls,
            task_emissions, tool_traces, emission_records, slot_events, confirmation_events, flow_events,
            reasoning_steps, errors, total_energy_kwh, total_co2_g, detected_intent, detected_entities,
            sentiment_score, is_continuation, is_cancellation, metadata, copied_from)
        SELECT * FROM json_to_recordset(traces) AS given (
            id text, message_id text, conversation_id text, user_id text, agent_id text, turn_number bigint,
            started_at_ms bigint, ended_at_ms bigint, total_latency_ms bigint, total_prompt_tokens bigint,
            total_completion_tokens bigint, total_tokens bigint, llm_calls jsonb, task_emissions jsonb,
            tool_traces jsonb, emission_records jsonb, slot_events jsonb, confirmation_events jsonb,
            flow_events jsonb, reasoning_steps jsonb, errors jsonb, total_energy_kwh float8,
            total_co2_g float8, detected_intent text, detected_entities jsonb, sentiment_score float8,
            is_continuation boolean, is_cancellation boolean, metadata jsonb, copied_from jsonb)
        ON CONFLICT (message_id) DO UPDATE SET id = excluded.id,
            seq = CASE WHEN stored.id = excluded.id THEN stored.seq ELSE excluded.seq END,
            conversation_id = excluded.conversation_id, user_id = excluded.user_id,
            agent_id = excluded.agent_id, turn_number = excluded.turn_number,
            started_at_ms = excluded.started_at_ms, ended_at_ms = excluded.ended_at_ms,
            total_latency_ms = excluded.total_latency_ms, total_prompt_tokens = excluded.total_prompt_tokens,
            total_completion_tokens = excluded.total_completion_tokens, total_tokens = excluded.total_tokens,
            llm_calls = excluded.llm_calls, task_emissions = excluded.task_emissions,
            tool_traces = excluded.tool_traces, emission_records = excluded.emission_records,
            slot_events = excluded.slot_events, confirmation_events = excluded.confirmation_events,
            flow_events = excluded.flow_events, reasoning_steps = excluded.reasoning_steps,
            errors = excluded.errors, total_energy_kwh = excluded.total_energy_kwh,
            total_co2_g = excluded.total_co2_g, detected_intent = excluded.detected_intent,
            detected_entities = excluded.detected_entities, sentiment_score = excluded.sentiment_score,
            is_continuation = excluded.is_continuation, is_cancellation = excluded.is_cancellation,
            metadata = excluded.metadata, copied_from = excluded.copied_from;
    END IF;
END
$body$;
