-- Erasure and retention: each call deletes a bounded number of records, under their locks and only if
-- they still meet the condition then. It waits for the first conversation or record that is locked, and
-- leaves others that are locked to the next call: so it needs no order of locks.

-- Locks a conversation against all other writes, and returns whether it has: only if it is stored, and
-- without `waits` only if it is free. One that is stored a moment later is not locked.
CREATE FUNCTION $schema.jazzmine_lock_to_delete(owner text, waits boolean) RETURNS boolean
    LANGUAGE plpgsql AS $body$
#variable_conflict use_column
BEGIN
    IF waits THEN
        PERFORM pg_advisory_xact_lock($lock(owner));
        PERFORM 1 FROM $schema.conversations WHERE id = owner FOR UPDATE;
    ELSIF pg_try_advisory_xact_lock($lock(owner)) THEN
        PERFORM 1 FROM $schema.conversations WHERE id = owner FOR UPDATE SKIP LOCKED;
    ELSE
        RETURN false;
    END IF;
    RETURN FOUND;
END
$body$;

-- Deletes the oldest messages of a conversation, which the caller has locked, with their traces, and the
-- conversation with the last of them. Returns how many of each kind.
CREATE FUNCTION $schema.jazzmine_delete_oldest(
    owner text, size bigint, OUT conversations bigint, OUT messages bigint, OUT traces bigint
) LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    chosen text[] := ARRAY(
        SELECT id FROM $schema.messages WHERE conversation_id = owner
        ORDER BY timestamp, seq LIMIT size);
BEGIN
    PERFORM 1 FROM $schema.messages WHERE id = ANY(chosen) ORDER BY id COLLATE "C" FOR UPDATE;
    DELETE FROM $schema.turn_traces WHERE message_id = ANY(chosen);
    GET DIAGNOSTICS traces = ROW_COUNT;
    DELETE FROM $schema.messages WHERE id = ANY(chosen);
    GET DIAGNOSTICS messages = ROW_COUNT;
    DELETE FROM $schema.conversations WHERE id = owner
        AND NOT EXISTS (SELECT FROM $schema.messages WHERE conversation_id = owner);
    GET DIAGNOSTICS conversations = ROW_COUNT;
END
$body$;

-- The answer is an array: how many conversations, messages and traces were deleted, and whether
-- something was found.
CREATE FUNCTION $schema.jazzmine_erase(erased_user text, size bigint, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    owner text;
    is_locked boolean;
    step record;
    chosen text[] := '{}';
    locked text[];
    is_found boolean := false;
    conversations bigint := 0;
    messages bigint := 0;
    traces bigint := 0;
BEGIN
    FOR owner IN
        SELECT id FROM $schema.conversations WHERE user_id = erased_user
        ORDER BY last_updated_at DESC, seq DESC LIMIT size
    LOOP
        EXIT WHEN messages >= size;
        is_locked := $schema.jazzmine_lock_to_delete(owner, NOT is_found);
        is_found := true;
        CONTINUE WHEN NOT is_locked OR NOT EXISTS (
            SELECT FROM $schema.conversations WHERE id = owner AND user_id = erased_user);
        SELECT * INTO step FROM $schema.jazzmine_delete_oldest(owner, size - messages);
        conversations := conversations + step.conversations;
        messages := messages + step.messages;
        traces := traces + step.traces;
    END LOOP;
    -- What a user has in the conversations of others is not seen by a scoped store.
    IF NOT is_found $scoped{AND false} THEN
        FOR step IN
            SELECT id, conversation_id FROM $schema.messages WHERE user_id = erased_user
            ORDER BY timestamp, seq LIMIT size
        LOOP
            owner := step.conversation_id;
            IF chosen = '{}' THEN
                PERFORM pg_advisory_xact_lock_shared($lock(owner));
            ELSE
                CONTINUE WHEN NOT pg_try_advisory_xact_lock_shared($lock(owner));
            END IF;
            chosen := chosen || step.id;
        END LOOP;
        locked := ARRAY(
            SELECT id FROM $schema.messages WHERE id = ANY(chosen) AND user_id = erased_user
            FOR UPDATE SKIP LOCKED);
        IF locked = '{}' THEN
            locked := ARRAY(
                SELECT id FROM $schema.messages WHERE id = chosen[1] AND user_id = erased_user
                FOR UPDATE);
        END IF;
        DELETE FROM $schema.turn_traces WHERE message_id = ANY(locked);
        GET DIAGNOSTICS traces = ROW_COUNT;
        DELETE FROM $schema.messages WHERE id = ANY(locked);
        GET DIAGNOSTICS messages = ROW_COUNT;
        is_found := EXISTS (SELECT FROM $schema.messages WHERE user_id = erased_user);
    END IF;
    IF NOT is_found AND messages = 0 $scoped{AND false} THEN
        locked := ARRAY(
            SELECT id FROM $schema.turn_traces WHERE user_id = erased_user
            ORDER BY started_at_ms DESC, seq DESC LIMIT size FOR UPDATE SKIP LOCKED);
        IF locked = '{}' THEN
            locked := ARRAY(
                SELECT id FROM $schema.turn_traces WHERE user_id = erased_user
                ORDER BY started_at_ms DESC, seq DESC LIMIT 1 FOR UPDATE);
        END IF;
        DELETE FROM $schema.turn_traces WHERE id = ANY(locked);
        GET DIAGNOSTICS traces = ROW_COUNT;
        is_found := EXISTS (SELECT FROM $schema.turn_traces WHERE user_id = erased_user);
    END IF;
    $finish(json_build_array(conversations, messages, traces, is_found), NULL)
END
$body$;

-- Deletes about `size` messages of those of the conversations that are older than `before`, those of the
-- first one first. The answer is an array: how many conversations were deleted, and how many of the
-- first ids need no other call.
CREATE FUNCTION $schema.jazzmine_prune(ids text[], before bigint, size bigint, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    owner text;
    step record;
    messages bigint := 0;
    pruned bigint := 0;
    done bigint := 0;
BEGIN
    FOREACH owner IN ARRAY ids LOOP
        $seen(owner)
        EXIT WHEN messages >= size;
        IF NOT $schema.jazzmine_lock_to_delete(owner, done = 0) THEN
            EXIT WHEN EXISTS (SELECT FROM $schema.conversations WHERE id = owner);
        ELSIF EXISTS (
            SELECT FROM $schema.conversations WHERE id = owner AND last_updated_at < before $scoped{AND user_id = viewer}
        ) AND coalesce((
            SELECT timestamp FROM $schema.messages WHERE conversation_id = owner
            ORDER BY timestamp DESC, seq DESC LIMIT 1) < before, true)
        THEN
            SELECT * INTO step FROM $schema.jazzmine_delete_oldest(owner, size - messages);
            messages := messages + step.messages;
            pruned := pruned + step.conversations;
            EXIT WHEN step.conversations = 0;
        END IF;
        done := done + 1;
    END LOOP;
    $finish(json_build_array(pruned, done), NULL)
END
$body$;
