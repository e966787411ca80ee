-- The writes of a conversation as a log. Each locks the conversation first, and sees what was committed
-- before it got the locks: a statement sees what was committed before it began.

-- The messages have ascending timestamps, and `latest` is the last one. With is_replacing, the messages
-- after last_kept are deleted first, or all if it is null.
--
-- The answer is the timestamp of the newest message that was left, or an object with what hinders the
-- append: whether the conversation is known, its newest message, how many of the ids are stored, and
-- whether last_kept is a message of it.
CREATE FUNCTION $schema.jazzmine_append(
    owner text, ids text[], messages json, latest bigint, is_any boolean, expected_last text,
    is_replacing boolean, last_kept text, trace json, $fence
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text;
    named text[];
    newest_id text;
    last_timestamp bigint;
    last_seq bigint := -9223372036854775808;
    is_stored boolean;
    is_known boolean;
    is_replaced boolean := true;
    later text[];
BEGIN
    $seen(owner)
    PERFORM pg_advisory_xact_lock($lock(owner));
    PERFORM 1 FROM $schema.conversations WHERE id = owner $scoped{AND user_id = viewer}
    FOR NO KEY UPDATE;
    $seen(owner)
    is_known := FOUND;
    SELECT newest.id, newest.timestamp,
        EXISTS (
            SELECT FROM unnest(ids) AS given,
                LATERAL (SELECT FROM $schema.messages WHERE id = given LIMIT 1) AS stored)
    INTO newest_id, last_timestamp, is_stored
    FROM (SELECT) AS one LEFT JOIN LATERAL (
        SELECT id, timestamp FROM $schema.messages WHERE conversation_id = owner
        ORDER BY timestamp DESC, seq DESC LIMIT 1) AS newest ON true;
    IF is_replacing THEN
        last_timestamp := NULL;
        IF last_kept IS NOT NULL THEN
            SELECT timestamp, seq INTO last_timestamp, last_seq FROM $schema.messages
            WHERE id = last_kept AND conversation_id = owner;
            is_replaced := FOUND;
        END IF;
    END IF;
    IF is_known AND is_replaced AND NOT is_stored
        AND (is_any OR newest_id IS NOT DISTINCT FROM expected_last)
    THEN
        IF is_replacing THEN
            later := ARRAY(
                SELECT id FROM $schema.messages
                WHERE conversation_id = owner
                    AND (last_timestamp IS NULL OR (timestamp, seq) > (last_timestamp, last_seq))
                ORDER BY id COLLATE "C" FOR UPDATE);
            DELETE FROM $schema.messages WHERE id = ANY(later);
        END IF;
        INSERT INTO $schema.messages ($messages.columns)
        SELECT $messages.values_after_last_timestamp
        FROM json_to_recordset(messages) AS given ($messages.definitions);
        $index(json_to_recordset(messages))
        UPDATE $schema.conversations SET last_updated_at = greatest(latest, last_timestamp)
        WHERE id = owner AND last_updated_at < greatest(latest, last_timestamp);
        IF trace IS NOT NULL THEN
            $store_trace
        END IF;
        answer := coalesce(last_timestamp, -9223372036854775808);
    ELSE
        SELECT ARRAY[user_id] INTO named FROM $schema.conversations WHERE id = owner;
        answer := json_build_object(
            'is_known', is_known, 'newest_id', newest_id, 'is_replaced', is_replaced,
            'stored', (SELECT count(*) FROM $schema.messages WHERE id = ANY(ids)));
    END IF;
    $finish(answer, named)
END
$body$;

-- Deletes the newest message if it is certain that it can be read, or still this version of one that
-- the caller has read. The answer is the row, '' if there is no message, or 'unread'.
CREATE FUNCTION $schema.jazzmine_pop(owner text, read_id text, version text, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text;
    named text[];
    newest_id text;
BEGIN
    $seen(owner)
    PERFORM pg_advisory_xact_lock($lock(owner));
    PERFORM 1 FROM $schema.conversations WHERE id = owner $scoped{AND user_id = viewer}
    FOR NO KEY UPDATE;
    $seen(owner)
    newest_id := (
        SELECT id FROM $schema.messages WHERE conversation_id = owner
        ORDER BY timestamp DESC, seq DESC LIMIT 1);
    DELETE FROM $schema.messages
    WHERE id = newest_id
        AND (id = read_id AND xmin::text = version OR $messages.is_surely_readable)
    RETURNING $messages.object, ARRAY[user_id] INTO answer, named;
    IF NOT FOUND THEN
        answer := CASE WHEN newest_id IS NULL THEN '' ELSE 'unread' END;
    END IF;
    $finish(answer, named)
END
$body$;

-- The answer is how many messages were deleted, or '' if last_kept is no message of the conversation.
CREATE FUNCTION $schema.jazzmine_rewind(owner text, last_kept text, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text := '';
    is_kept boolean := true;
    deleted bigint;
    last_timestamp bigint := -9223372036854775808;
    last_seq bigint := -9223372036854775808;
    later text[];
BEGIN
    $seen(owner)
    PERFORM pg_advisory_xact_lock($lock(owner));
    PERFORM 1 FROM $schema.conversations WHERE id = owner $scoped{AND user_id = viewer}
    FOR NO KEY UPDATE;
    $seen(owner)
    IF last_kept IS NOT NULL THEN
        SELECT timestamp, seq INTO last_timestamp, last_seq FROM $schema.messages
        WHERE id = last_kept AND conversation_id = owner;
        is_kept := FOUND;
    END IF;
    IF is_kept THEN
        later := ARRAY(
            SELECT id FROM $schema.messages
            WHERE conversation_id = owner AND (timestamp, seq) > (last_timestamp, last_seq)
            ORDER BY id COLLATE "C" FOR UPDATE);
        DELETE FROM $schema.messages WHERE id = ANY(later);
        GET DIAGNOSTICS deleted = ROW_COUNT;
        answer := deleted;
    END IF;
    $finish(answer, NULL)
END
$body$;

-- The id of the copy of a record: with one salt, it is always the same.
CREATE FUNCTION $schema.jazzmine_forked_id(salt text, id text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT AS $body$
SELECT overlay(overlay(left(encode(sha256(convert_to(salt || id, 'UTF8')), 'hex'), 32)
    PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid::text
$body$;

-- The answer is an object with the ids of the copies by those of the messages, or a word that says
-- what hinders the copy: 'conversation', 'message' or 'copy'.
CREATE FUNCTION $schema.jazzmine_fork(
    owner text, last_copied text, copy_id text, copy json, salt text, $fence
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text;
    named text[];
    last_timestamp bigint := 9223372036854775807;
    last_seq bigint := 9223372036854775807;
    ids text[];
BEGIN
    $seen(owner)
    PERFORM pg_advisory_xact_lock($lock(owner));
    PERFORM 1 FROM $schema.conversations WHERE id = owner $scoped{AND user_id = viewer}
    FOR NO KEY UPDATE;
    $seen(owner)
    IF NOT FOUND THEN
        answer := 'conversation';
    ELSIF last_copied IS NOT NULL THEN
        SELECT timestamp, seq INTO last_timestamp, last_seq FROM $schema.messages
        WHERE id = last_copied AND conversation_id = owner;
        IF NOT FOUND THEN
            answer := 'message';
        END IF;
    END IF;
    $scoped{IF answer IS NULL AND EXISTS (SELECT FROM $schema.conversations WHERE id = copy_id) THEN
        answer := 'copy'; -- the insertion would wait for one that changes it
    END IF;}
    IF answer IS NULL THEN
        INSERT INTO $schema.conversations ($conversations.columns)
        SELECT $conversations.values
        FROM json_to_record(copy) AS given ($conversations.definitions)
        ON CONFLICT (id) DO NOTHING;
        IF NOT FOUND THEN
            answer := 'copy';
        END IF;
    END IF;
    IF answer IS NULL THEN
        -- The messages that are listed are those that are copied: nothing else changes them before
        -- this is committed.
        ids := ARRAY(
            SELECT id FROM $schema.messages
            WHERE conversation_id = owner AND (timestamp, seq) <= (last_timestamp, last_seq)
            ORDER BY id COLLATE "C" FOR NO KEY UPDATE);
        INSERT INTO $schema.messages ($messages.columns)
        SELECT $messages.forked_columns FROM $schema.messages AS source
        WHERE id = ANY(ids) ORDER BY timestamp, seq;
        $index_copies()
        INSERT INTO $schema.turn_traces ($turn_traces.columns)
        SELECT $turn_traces.forked_columns FROM $schema.turn_traces AS source
        WHERE message_id = ANY(ids) ORDER BY seq;
        SELECT coalesce(
            json_object_agg(id, $schema.jazzmine_forked_id(salt, id) ORDER BY timestamp, seq), '{}')
        INTO answer FROM $schema.messages WHERE id = ANY(ids);
        named := ARRAY(
            SELECT user_id FROM $schema.messages WHERE id = ANY(ids)
            UNION SELECT user_id FROM $schema.conversations WHERE id IN (owner, copy_id));
    END IF;
    $finish(answer, named)
END
$body$;
