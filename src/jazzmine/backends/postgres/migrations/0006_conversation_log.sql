-- A write that would have another result if it were repeated stores its result in the lease, until
-- the next write of the connection, with the users whose ids or text it may contain.

ALTER TABLE $schema.jazzmine_leases
    ADD COLUMN result text,
    ADD COLUMN users text[];

-- The flagged messages that a context window needs, because their tools' answers refer to them.

CREATE INDEX idx_msg_flagged_calls ON $schema.messages (conversation_id, timestamp, seq)
    WHERE is_flagged AND role IN ('assistant', 'colleague_assistant');

-- The oldest conversations, which are pruned first.

CREATE INDEX idx_conv_updated ON $schema.conversations (last_updated_at, seq);

-- What the writes of a conversation as a log read and decide. Each locks the conversation first; a
-- statement sees what was committed before it began, so what was committed while it waited for a
-- lock is seen only by the next one. That is why these are functions. FOR UPDATE waits for all
-- writes of messages too. All lock rows in one order: conversations, messages, traces, and each of
-- them by id. A conversation that is stored after a call has locked others is not locked any more:
-- the call treats it as unknown. The calls that use them check the arguments.
--
-- No function names a column that only a record's field is stored in: rows are read and copied as a
-- whole, and the statements that call the functions name the columns.

-- Locks conversations in which the caller stores messages. If one of them is not stored, this raises
-- the error of the foreign key, which would lock the conversation after the messages if it were
-- stored meanwhile.
CREATE FUNCTION $schema.jazzmine_lock_conversations(owners text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $lock$
DECLARE
    locked text[] := ARRAY(
        SELECT id FROM $schema.conversations WHERE id = ANY(owners)
        ORDER BY id COLLATE "C" FOR KEY SHARE);
BEGIN
    IF cardinality(locked) < cardinality(owners) THEN
        RAISE foreign_key_violation USING TABLE = 'messages', DETAIL = (
            SELECT format('Key (conversation_id)=(%s) is not present.', owner)
            FROM unnest(owners) AS owner WHERE owner <> ALL(locked) LIMIT 1);
    END IF;
END
$lock$;

-- Locks conversations that the caller deletes, and their messages: the foreign key alone would lock
-- the messages in another order. Returns those that are locked: the caller deletes no other.
CREATE FUNCTION $schema.jazzmine_lock_to_delete(ids text[]) RETURNS text[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $lock$
DECLARE
    locked text[] := ARRAY(
        SELECT id FROM $schema.conversations WHERE id = ANY(ids)
        ORDER BY id COLLATE "C" FOR UPDATE);
BEGIN
    PERFORM 1 FROM $schema.messages WHERE conversation_id = ANY(locked)
    ORDER BY id COLLATE "C" FOR UPDATE;
    RETURN locked;
END
$lock$;

-- Decides about an append; the caller stores the messages. `latest` is their newest timestamp.
--
-- floor: the timestamp of the newest message before, or the least bigint; null if the messages must
-- not be stored, and then refusal says why.
CREATE FUNCTION $schema.jazzmine_append(
    owner text, given_ids text[], is_any boolean, expected_last text, latest bigint,
    OUT floor bigint, OUT refusal json
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $append$
#variable_conflict use_column
DECLARE
    is_known boolean;
    newest_id text;
    newest_timestamp bigint;
    stored json[];
BEGIN
    PERFORM 1 FROM $schema.conversations WHERE id = owner FOR UPDATE;
    is_known := FOUND;
    SELECT id, timestamp INTO newest_id, newest_timestamp FROM $schema.messages
    WHERE conversation_id = owner ORDER BY timestamp DESC, seq DESC LIMIT 1;
    stored := ARRAY(
        SELECT row_to_json(one) FROM $schema.messages AS one WHERE id = ANY(given_ids));
    IF NOT is_known
        OR cardinality(stored) > 0
        OR NOT (is_any OR newest_id IS NOT DISTINCT FROM expected_last)
    THEN
        refusal := json_build_object(
            'is_known', is_known,
            'newest_id', newest_id,
            'newest_timestamp', newest_timestamp,
            'stored', stored);
        RETURN;
    END IF;
    UPDATE $schema.conversations SET last_updated_at = greatest(latest, newest_timestamp)
    WHERE id = owner AND last_updated_at < greatest(latest, newest_timestamp);
    floor := coalesce(newest_timestamp, -9223372036854775808);
END
$append$;

-- Decides about appends to different conversations, each with `sizes` of the given ids. An empty
-- `expected_last` is that no message is expected.
CREATE FUNCTION $schema.jazzmine_append_to_each(
    owners text[], sizes integer[], given_ids text[], is_any boolean[], expected_last text[],
    latest bigint[], OUT floors bigint[]
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $each$
DECLARE
    used integer := 0;
    locked text[] := ARRAY(
        SELECT id FROM $schema.conversations WHERE id = ANY(owners)
        ORDER BY id COLLATE "C" FOR UPDATE);
BEGIN
    FOR n IN 1..cardinality(owners) LOOP
        floors[n] := (
            SELECT floor FROM $schema.jazzmine_append(
                owners[n], given_ids[used + 1 : used + sizes[n]], is_any[n],
                nullif(expected_last[n], ''), latest[n])
            WHERE owners[n] = ANY(locked));
        used := used + sizes[n];
    END LOOP;
END
$each$;

-- The newest message of a conversation, locked; and the user of the conversation.
CREATE FUNCTION $schema.jazzmine_newest(owner text, OUT message json, OUT owners text[])
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $newest$
BEGIN
    SELECT ARRAY[user_id] INTO owners FROM $schema.conversations WHERE id = owner FOR UPDATE;
    SELECT row_to_json(one) INTO message FROM $schema.messages AS one
    WHERE conversation_id = owner ORDER BY timestamp DESC, seq DESC LIMIT 1 FOR UPDATE;
END
$newest$;

-- Deletes a message that the caller has locked, and returns 1.
CREATE FUNCTION $schema.jazzmine_delete_message(message_id text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $delete$
BEGIN
    DELETE FROM $schema.messages WHERE id = message_id;
    RETURN 1;
END
$delete$;

-- The functions below return "written", null if nothing was changed, "result", and "users", those
-- whose ids or text are in the result: null if the result is not stored in the lease.

-- written: how many messages were deleted.
CREATE FUNCTION $schema.jazzmine_rewind(
    owner text, last_kept text, OUT written bigint, OUT result text, OUT users text[]
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $rewind$
#variable_conflict use_column
DECLARE
    last_timestamp bigint := -9223372036854775808;
    last_seq bigint := -9223372036854775808;
    later text[];
BEGIN
    PERFORM 1 FROM $schema.conversations WHERE id = owner FOR UPDATE;
    IF last_kept IS NOT NULL THEN
        SELECT timestamp, seq INTO last_timestamp, last_seq FROM $schema.messages
        WHERE id = last_kept AND conversation_id = owner;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    later := ARRAY(
        SELECT id FROM $schema.messages
        WHERE conversation_id = owner AND (timestamp, seq) > (last_timestamp, last_seq)
        ORDER BY id COLLATE "C" FOR UPDATE);
    DELETE FROM $schema.messages WHERE id = ANY(later);
    GET DIAGNOSTICS written = ROW_COUNT;
END
$rewind$;

-- The id of the copy of a record: with one salt, it is always the same.
CREATE FUNCTION $schema.jazzmine_forked_id(salt text, id text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $forked$
SELECT overlay(overlay(left(encode(sha256(convert_to(salt || id, 'UTF8')), 'hex'), 32)
    PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid::text
$forked$;

-- Locks a conversation that is to be copied, and returns how far to copy it; or what hinders that.
CREATE FUNCTION $schema.jazzmine_fork_source(
    owner text, last_copied text,
    OUT refusal text, OUT owners text[], OUT last_timestamp bigint, OUT last_seq bigint
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $source$
#variable_conflict use_column
BEGIN
    SELECT ARRAY[user_id] INTO owners FROM $schema.conversations WHERE id = owner FOR UPDATE;
    IF NOT FOUND THEN
        refusal := 'no conversation';
        RETURN;
    END IF;
    last_timestamp := 9223372036854775807;
    last_seq := 9223372036854775807;
    IF last_copied IS NOT NULL THEN
        SELECT timestamp, seq INTO last_timestamp, last_seq FROM $schema.messages
        WHERE id = last_copied AND conversation_id = owner;
        IF NOT FOUND THEN
            refusal := 'no message';
        END IF;
    END IF;
END
$source$;

-- As jazzmine_message_numbers.
CREATE FUNCTION $schema.jazzmine_trace_numbers(count integer) RETURNS SETOF bigint
    LANGUAGE sql VOLATILE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $numbers$
        SELECT nextval((SELECT pg_get_serial_sequence('$schema.turn_traces', 'seq')::regclass))
        FROM generate_series(1, count)
    $numbers$;

-- Copies messages and traces to a conversation that was just stored.
-- result: the ids of the copies by those of the messages.
CREATE FUNCTION $schema.jazzmine_fork(
    owner text, copy_id text, last_timestamp bigint, last_seq bigint, salt text,
    OUT result text, OUT users text[]
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $fork$
#variable_conflict use_column
DECLARE
    ids text[];
    traces text[];
    numbers bigint[];
BEGIN
    SELECT array_agg(id ORDER BY timestamp, seq), array_agg(DISTINCT user_id) INTO ids, users
    FROM $schema.messages
    WHERE conversation_id = owner AND (timestamp, seq) <= (last_timestamp, last_seq);
    numbers := ARRAY(SELECT $schema.jazzmine_message_numbers(cardinality(ids)));
    INSERT INTO $schema.messages
    SELECT copy.*
    FROM unnest(ids, numbers) AS copied (id, number)
        JOIN $schema.messages AS one ON one.id = copied.id
        CROSS JOIN LATERAL jsonb_populate_record(one, jsonb_build_object(
            'id', $schema.jazzmine_forked_id(salt, one.id), 'conversation_id', copy_id,
            'seq', copied.number)) AS copy;
    -- A trace may be stored meanwhile, so the traces that are numbered are those that are copied.
    traces := ARRAY(
        SELECT id FROM $schema.turn_traces WHERE message_id = ANY(ids) ORDER BY seq);
    numbers := ARRAY(SELECT $schema.jazzmine_trace_numbers(cardinality(traces)));
    INSERT INTO $schema.turn_traces
    SELECT copy.*
    FROM unnest(traces, numbers) AS copied (id, number)
        JOIN $schema.turn_traces AS one ON one.id = copied.id
        CROSS JOIN LATERAL jsonb_populate_record(one, jsonb_build_object(
            'id', $schema.jazzmine_forked_id(salt, one.id),
            'message_id', $schema.jazzmine_forked_id(salt, one.message_id),
            'conversation_id', copy_id, 'seq', copied.number)) AS copy;
    SELECT coalesce(
        json_object_agg(id, $schema.jazzmine_forked_id(salt, id) ORDER BY number), '{}')::text
    INTO result FROM unnest(ids) WITH ORDINALITY AS copied (id, number);
END
$fork$;

-- Erasure and retention: each call deletes a bounded number of records. They are looked up anew
-- under the locks.

-- The oldest messages of conversations, at most `size`, beginning with the first conversation.
CREATE FUNCTION $schema.jazzmine_oldest_messages(owners text[], size integer) RETURNS text[]
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $oldest$
SELECT ARRAY(
    SELECT page.id FROM unnest(owners) AS one (id) CROSS JOIN LATERAL (
        SELECT id FROM $schema.messages WHERE conversation_id = one.id
        ORDER BY timestamp, seq LIMIT size) AS page
    LIMIT size)
$oldest$;

-- Deletes messages with their traces, and those of the conversations `owned`, which the caller has
-- locked, that have no message left. Returns how many of each kind.
CREATE FUNCTION $schema.jazzmine_delete_some(
    owned text[], chosen text[], OUT conversations bigint, OUT messages bigint, OUT traces bigint
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $delete$
#variable_conflict use_column
DECLARE
    locked text[] := ARRAY(
        SELECT id FROM $schema.messages
        WHERE id = ANY(chosen) AND (owned = '{}' OR conversation_id = ANY(owned))
        ORDER BY id COLLATE "C" FOR UPDATE);
BEGIN
    DELETE FROM $schema.turn_traces WHERE message_id = ANY(locked);
    GET DIAGNOSTICS traces = ROW_COUNT;
    DELETE FROM $schema.messages WHERE id = ANY(locked);
    GET DIAGNOSTICS messages = ROW_COUNT;
    DELETE FROM $schema.conversations AS one WHERE id = ANY(owned)
        AND (
            SELECT id FROM $schema.messages WHERE conversation_id = one.id
            ORDER BY timestamp, seq LIMIT 1) IS NULL;
    GET DIAGNOSTICS conversations = ROW_COUNT;
END
$delete$;

-- If nothing that was found is left when it is locked, the call is repeated, because a transaction
-- that locked more rows would not lock them in order.
--
-- result: how many conversations, messages and traces were deleted; and whether to repeat the call.
CREATE FUNCTION $schema.jazzmine_erase(
    erased_user text, size integer, OUT written bigint, OUT result text, OUT users text[]
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $erase$
#variable_conflict use_column
DECLARE
    owned text[];
    owners text[];
    chosen text[];
    is_found boolean;
    conversations bigint := 0;
    messages bigint := 0;
    traces bigint;
BEGIN
    owned := ARRAY(
        SELECT id FROM $schema.conversations WHERE user_id = erased_user
        ORDER BY last_updated_at DESC, seq DESC LIMIT size);
    is_found := owned <> '{}';
    IF is_found THEN
        owned := ARRAY(
            SELECT id FROM $schema.conversations
            WHERE id = ANY(owned) AND user_id = erased_user
            ORDER BY id COLLATE "C" FOR UPDATE);
        chosen := $schema.jazzmine_oldest_messages(owned, size);
    ELSE
        SELECT array_agg(id), array_agg(conversation_id) INTO chosen, owners FROM (
            SELECT id, conversation_id FROM $schema.messages WHERE user_id = erased_user
            ORDER BY timestamp, seq LIMIT size) AS page;
        is_found := chosen IS NOT NULL;
        PERFORM 1 FROM $schema.conversations WHERE id = ANY(owners)
        ORDER BY id COLLATE "C" FOR KEY SHARE;
    END IF;
    IF is_found THEN
        SELECT * INTO conversations, messages, traces
        FROM $schema.jazzmine_delete_some(owned, chosen);
    ELSE
        SELECT array_agg(id), array_agg(message_id) INTO chosen, owners FROM (
            SELECT id, message_id FROM $schema.turn_traces WHERE user_id = erased_user
            ORDER BY started_at_ms DESC, seq DESC LIMIT size) AS page;
        is_found := chosen IS NOT NULL;
        PERFORM 1 FROM $schema.messages WHERE id = ANY(owners)
        ORDER BY id COLLATE "C" FOR KEY SHARE;
        DELETE FROM $schema.turn_traces WHERE id = ANY(chosen) AND user_id = erased_user;
        GET DIAGNOSTICS traces = ROW_COUNT;
    END IF;
    written := 1;
    result := json_build_array(
        conversations, messages, traces, is_found AND conversations + messages + traces = 0);
    users := '{}';
END
$erase$;

-- Deletes about `size` records of those of the conversations that are older than `before`.
--
-- written: how many conversations were deleted; result: how many of the first ids need no other call.
CREATE FUNCTION $schema.jazzmine_prune(
    ids text[], before bigint, size integer, OUT written bigint, OUT result text, OUT users text[]
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $prune$
#variable_conflict use_column
DECLARE
    owned text[] := ARRAY(
        SELECT id FROM $schema.conversations WHERE id = ANY(ids)
        ORDER BY id COLLATE "C" FOR UPDATE);
BEGIN
    owned := ARRAY(
        SELECT one.id FROM unnest(ids) WITH ORDINALITY AS given (id, place)
            JOIN $schema.conversations AS one USING (id)
        WHERE one.id = ANY(owned) AND last_updated_at < before AND coalesce((
            SELECT timestamp FROM $schema.messages WHERE conversation_id = one.id
            ORDER BY timestamp DESC, seq DESC LIMIT 1) < before, true)
        ORDER BY given.place);
    SELECT conversations INTO written FROM $schema.jazzmine_delete_some(
        owned, $schema.jazzmine_oldest_messages(owned, size));
    SELECT coalesce(min(given.place) - 1, cardinality(ids))::text INTO result
    FROM unnest(ids) WITH ORDINALITY AS given (id, place)
        JOIN $schema.conversations AS one USING (id)
    WHERE one.id = ANY(owned);
    users := '{}';
END
$prune$;
