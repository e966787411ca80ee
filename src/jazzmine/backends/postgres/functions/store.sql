-- Stores conversations, messages with different ids, and traces of different messages, all of them or none. Each
-- kind is an array of objects, or null; a message is without the fields that have their default. A trace that
-- replaces another one of the same message is stored last.
--
-- With `earliest` the messages are new, and none gets an earlier timestamp. If one is stored after all, another
-- call has done so meanwhile, and the client calls again; or a policy hides it from the role.

CREATE OR REPLACE FUNCTION $schema.jazzmine_store(
    conversations json, messages json, traces json, earliest bigint
) RETURNS void LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    written bigint;
    reason text;
BEGIN
    IF conversations IS NOT NULL THEN
        INSERT INTO $schema.conversations AS stored (
            id, user_id, agent_id, title, created_at, last_updated_at, metadata)
        SELECT id, user_id, agent_id, title, created_at, last_updated_at, metadata
        FROM json_populate_recordset(NULL::$schema.conversations, conversations)
        ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, agent_id = excluded.agent_id,
            title = excluded.title, created_at = excluded.created_at,
            last_updated_at = excluded.last_updated_at, metadata = excluded.metadata;
    END IF;
    IF messages IS NOT NULL THEN
        INSERT INTO $schema.messages AS stored (
            id, conversation_id, user_id, role, original_content, enhanced_message, explicit_context, episode_id,
            sentiment_score, intent, entities, is_cancellation, is_continuation, is_flagged, timestamp,
            invoked_flows, invoked_tools, reasoning_steps, errors, metadata, entry)
        SELECT id, conversation_id, user_id, role, original_content, enhanced_message, explicit_context, episode_id,
            sentiment_score, intent, entities, is_cancellation, is_continuation, is_flagged,
            greatest(timestamp, earliest), invoked_flows, invoked_tools, reasoning_steps, errors, metadata, entry
        FROM json_populate_recordset(
            json_populate_record(NULL::$schema.messages, '{
                "enhanced_message": "", "episode_id": 0, "sentiment_score": 0, "intent": "unknown", "entities": [],
                "is_cancellation": false, "is_continuation": true, "is_flagged": false, "metadata": {}}'),
            messages)
        ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, role = excluded.role,
            original_content = excluded.original_content, enhanced_message = excluded.enhanced_message,
            explicit_context = excluded.explicit_context, episode_id = excluded.episode_id,
            sentiment_score = excluded.sentiment_score, intent = excluded.intent,
            entities = excluded.entities, is_cancellation = excluded.is_cancellation,
            is_continuation = excluded.is_continuation, is_flagged = excluded.is_flagged,
            timestamp = excluded.timestamp, invoked_flows = excluded.invoked_flows,
            invoked_tools = excluded.invoked_tools, reasoning_steps = excluded.reasoning_steps,
            errors = excluded.errors, metadata = excluded.metadata, entry = excluded.entry
        WHERE stored.conversation_id = excluded.conversation_id AND earliest IS NULL;
        GET DIAGNOSTICS written = ROW_COUNT;
        IF written < json_array_length(messages) THEN
            IF earliest IS NOT NULL THEN
                RAISE unique_violation;
            END IF;
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
        SELECT id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms, ended_at_ms,
            total_latency_ms, total_prompt_tokens, total_completion_tokens, total_tokens, llm_calls,
            task_emissions, tool_traces, emission_records, slot_events, confirmation_events, flow_events,
            reasoning_steps, errors, total_energy_kwh, total_co2_g, detected_intent, detected_entities,
            sentiment_score, is_continuation, is_cancellation, metadata, copied_from
        FROM json_populate_recordset(NULL::$schema.turn_traces, traces)
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
