-- Deletes the oldest messages of a conversation, which the caller has locked, with their traces, and the
-- conversation with the last of them. Returns how many of each kind.

CREATE OR REPLACE FUNCTION $schema.jazzmine_delete_oldest(
    owner text, size bigint, OUT conversations bigint, OUT messages bigint, OUT traces bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    chosen text[] := ARRAY(
        SELECT id FROM $schema.messages WHERE conversation_id = owner
        ORDER BY timestamp, seq LIMIT size);
BEGIN
    DELETE FROM $schema.turn_traces WHERE message_id = ANY(chosen);
    GET DIAGNOSTICS traces = ROW_COUNT;
    DELETE FROM $schema.messages WHERE id = ANY(chosen);
    GET DIAGNOSTICS messages = ROW_COUNT;
    DELETE FROM $schema.conversations WHERE id = owner
        AND NOT EXISTS (SELECT FROM $schema.messages WHERE conversation_id = owner);
    GET DIAGNOSTICS conversations = ROW_COUNT;
END
$body$;

-- Deletes about `size` messages of a user: first the user's conversations with all that is in them, then the
-- user's messages elsewhere, then the traces that name the user. Each is the user's when it is deleted, and its
-- number is at most the one of its table in newest (conversations, messages, traces). Returns how many of each
-- kind; all are 0 if nothing is left.

CREATE OR REPLACE FUNCTION $schema.jazzmine_erase(
    erased_user text, size bigint, newest bigint[],
    OUT conversations bigint, OUT messages bigint, OUT traces bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    owner text;
    step record;
BEGIN
    conversations := 0;
    messages := 0;
    traces := 0;
    FOR owner IN
        SELECT id FROM $schema.conversations WHERE user_id = erased_user AND seq <= newest[1]
        ORDER BY last_updated_at DESC, seq DESC LIMIT size
    LOOP
        EXIT WHEN messages >= size;
        PERFORM FROM $schema.conversations WHERE id = owner AND user_id = erased_user FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        SELECT * INTO step FROM $schema.jazzmine_delete_oldest(owner, size - messages);
        conversations := conversations + step.conversations;
        messages := messages + step.messages;
        traces := traces + step.traces;
    END LOOP;
    IF conversations = 0 AND messages = 0 THEN
        WITH chosen AS (
            SELECT id FROM $schema.messages WHERE user_id = erased_user AND seq <= newest[2]
            ORDER BY timestamp, seq LIMIT size FOR UPDATE
        ), without_traces AS (
            DELETE FROM $schema.turn_traces WHERE message_id IN (SELECT id FROM chosen) RETURNING id
        ), deleted AS (
            DELETE FROM $schema.messages WHERE id IN (SELECT id FROM chosen) RETURNING id
        )
        SELECT (SELECT count(*) FROM deleted), (SELECT count(*) FROM without_traces)
        INTO messages, traces;
    END IF;
    IF conversations = 0 AND messages = 0 THEN
        DELETE FROM $schema.turn_traces WHERE id = ANY(ARRAY(
            SELECT id FROM $schema.turn_traces WHERE user_id = erased_user AND seq <= newest[3]
            ORDER BY started_at_ms DESC, seq DESC LIMIT size FOR UPDATE));
        GET DIAGNOSTICS traces = ROW_COUNT;
    END IF;
END
$body$;
