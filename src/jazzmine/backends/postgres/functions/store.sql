-- The writes of records. Each call of a store that writes is one function, which ends with the fence
-- (see fence.py): its text is made by functions.py, for the schema and the columns of its tables.
--
-- Locks. What changes a conversation as a whole (see log.sql) takes the conversation's advisory lock,
-- then locks its row. What stores or deletes one message takes the advisory lock in shared mode: so it
-- does not overtake a call that waits, as it would if it locked the row FOR KEY SHARE. What stores
-- several messages locks the rows of their conversations, because advisory locks are limited in number.
-- After that, rows are locked in one order: conversations, messages, traces, and each of them by id.
--
-- Plans. A function keeps the plan that it made while a table was small, until the server's next ANALYZE,
-- which may be a minute and 100,000 rows away. Of several ids each is looked up by itself: for `id = ANY(ids)`
-- that plan would read the whole table.
--
-- Scopes. A function with a part in $seen or $scoped is made twice: without these parts, and with them for a
-- store that is scoped to a user, the viewer, as NAME_scoped. $seen(owner) raises an error unless the
-- conversation is the viewer's: before anything is locked, so that a call never waits for what belongs to
-- others, and again afterwards, since it may be another's by then.

CREATE FUNCTION $schema.jazzmine_store_message(owner text, message json, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
BEGIN
    $seen(owner)
    $scoped{IF EXISTS (
        SELECT FROM $schema.messages
        WHERE id = message ->> 'id' AND conversation_id <> message ->> 'conversation_id')
    THEN
        PERFORM $schema.jazzmine_refuse_moved(json_build_array(message));
    END IF;}
    PERFORM pg_advisory_xact_lock_shared($lock(owner));
    -- Most messages are new, and preparing an update of all columns takes a tenth of the time.
    INSERT INTO $schema.messages ($messages.columns)
    SELECT $messages.values FROM json_to_record(message) AS given ($messages.definitions)
    ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        INSERT INTO $schema.messages AS stored ($messages.columns)
        SELECT $messages.values FROM json_to_record(message) AS given ($messages.definitions)
        ON CONFLICT (id) DO UPDATE SET $messages.replacements
        WHERE stored.conversation_id = excluded.conversation_id AND $messages.is_changed;
        IF NOT FOUND THEN
            PERFORM $schema.jazzmine_refuse_moved(json_build_array(message));
        END IF;
    END IF;
    $index(json_to_record(message))
    $seen(owner)
    $finish('', NULL)
END
$body$;

-- Stores some of: a conversation, messages whose ids differ, a trace. A message that is stored alone
-- has a function of its own.
--
-- owners: the conversations of the messages, each once and in the order of the bytes of their ids,
-- without the given one, whose id is given_id.
-- trace_message, trace_owner: the message and the conversation that the trace names.
CREATE FUNCTION $schema.jazzmine_store(
    owners text[], given_id text, conversation json, messages json, size bigint,
    trace json, trace_message text, trace_owner text, $fence
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    locked text[];
    written bigint;
BEGIN
    $scoped{PERFORM $require_storable;}
    IF owners <> '{}' THEN
        locked := ARRAY(
            SELECT id FROM unnest(owners) AS owner, LATERAL (
                SELECT id FROM $schema.conversations WHERE id = owner FOR NO KEY UPDATE) AS found
            WHERE given_id IS NULL OR owner COLLATE "C" < given_id);
    END IF;
    IF conversation IS NOT NULL THEN
        INSERT INTO $schema.conversations AS stored ($conversations.columns)
        SELECT $conversations.values
        FROM json_to_record(conversation) AS given ($conversations.definitions)
        ON CONFLICT (id) DO UPDATE SET $conversations.replacements
        WHERE $conversations.is_changed $scoped{AND stored.user_id = viewer};
        $scoped{IF NOT EXISTS (
            SELECT FROM $schema.conversations WHERE id = given_id AND user_id = viewer)
        THEN -- a policy hides it
            RAISE EXCEPTION USING ERRCODE = 'JZ004', TABLE = 'conversations', MESSAGE = given_id;
        END IF;}
        IF owners <> '{}' THEN
            locked := locked || ARRAY(
                SELECT id FROM unnest(owners) AS owner, LATERAL (
                    SELECT id FROM $schema.conversations WHERE id = owner FOR NO KEY UPDATE) AS found
                WHERE owner COLLATE "C" > given_id);
        END IF;
    END IF;
    IF cardinality(locked) < cardinality(owners) THEN
        -- The foreign key would find one that is stored meanwhile, and is not locked.
        RAISE foreign_key_violation USING TABLE = 'messages', DETAIL = (
            SELECT format('Key (conversation_id)=(%s) is not present.', owner)
            FROM unnest(owners) AS owner WHERE owner <> ALL(locked) LIMIT 1);
    END IF;
    IF messages IS NOT NULL THEN
        INSERT INTO $schema.messages AS stored ($messages.columns)
        SELECT $messages.values FROM json_to_recordset(messages) AS given ($messages.definitions)
        ON CONFLICT (id) DO UPDATE SET $messages.replacements
        WHERE stored.conversation_id = excluded.conversation_id AND $messages.is_changed;
        GET DIAGNOSTICS written = ROW_COUNT;
        IF written < size THEN
            PERFORM $schema.jazzmine_refuse_moved(messages);
        END IF;
        $index(json_to_recordset(messages))
    END IF;
    IF trace IS NOT NULL THEN
        IF (SELECT conversation_id FROM $schema.messages WHERE id = trace_message) <> trace_owner THEN
            RAISE EXCEPTION USING ERRCODE = 'JZ002', MESSAGE = format(
                'the trace names conversation %L, which is not that of its message', trace_owner);
        END IF;
        $store_trace
    END IF;
    $scoped{PERFORM $require_storable;}
    $finish('', NULL)
END
$body$;

-- Raises an error if a call of jazzmine_store is not for the conversations of a user.
CREATE FUNCTION $schema.jazzmine_require_storable(
    viewer text, owners text[], given_id text, messages json, trace_message text
) RETURNS void LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    unseen text := (
        SELECT min(owner COLLATE "C") FROM unnest(owners) AS owner
        WHERE NOT EXISTS (
            SELECT FROM $schema.conversations WHERE id = owner AND user_id = viewer));
BEGIN
    IF EXISTS (SELECT FROM $schema.conversations WHERE id = given_id AND user_id <> viewer) THEN
        RAISE EXCEPTION USING ERRCODE = 'JZ004', TABLE = 'conversations', MESSAGE = given_id;
    END IF;
    IF unseen IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'JZ003', TABLE = 'conversations', MESSAGE = unseen;
    END IF;
    IF EXISTS (
        SELECT FROM json_to_recordset(messages) AS given (id text, conversation_id text)
            JOIN $schema.messages AS stored ON stored.id = given.id
        WHERE stored.conversation_id <> given.conversation_id)
    THEN
        PERFORM $schema.jazzmine_refuse_moved(messages);
    END IF;
    IF trace_message IS NOT NULL AND trace_message NOT IN (
        SELECT id FROM json_to_recordset(messages) AS given (id text)
    ) AND NOT EXISTS (
        SELECT FROM $schema.messages AS stored
            JOIN $schema.conversations AS owner ON owner.id = stored.conversation_id
        WHERE stored.id = trace_message AND owner.user_id = viewer)
    THEN
        RAISE EXCEPTION USING ERRCODE = 'JZ003', TABLE = 'messages', MESSAGE = trace_message;
    END IF;
END
$body$;

-- Raises an error if a message was not stored because it would move to another conversation. Where row-level
-- security hides the stored one, it is not found.
CREATE FUNCTION $schema.jazzmine_refuse_moved(messages json) RETURNS void
    LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    moved text := (
        SELECT format(
            'message %L is stored in another conversation than %L', given.id,
            given.conversation_id)
        FROM json_to_recordset(messages) AS given (id text, conversation_id text)
            LEFT JOIN $schema.messages AS stored ON stored.id = given.id
        WHERE stored.conversation_id IS DISTINCT FROM given.conversation_id
        ORDER BY stored.id IS NULL LIMIT 1); -- a scoped function has not stored the new ones yet
BEGIN
    IF moved IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'JZ002', MESSAGE = moved;
    END IF;
END
$body$;

-- Stores several conversations, or several traces; each id, and each trace's message, once.
CREATE FUNCTION $schema.jazzmine_store_many(conversations json, traces json, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    misplaced text;
BEGIN
    IF conversations IS NOT NULL THEN
        INSERT INTO $schema.conversations AS stored ($conversations.columns)
        SELECT $conversations.values
        FROM json_to_recordset(conversations) AS given ($conversations.definitions)
        ON CONFLICT (id) DO UPDATE SET $conversations.replacements
        WHERE $conversations.is_changed;
    END IF;
    IF traces IS NOT NULL THEN
        misplaced := (
            SELECT format(
                'the trace %L names conversation %L, which is not that of its message', given.id,
                given.conversation_id)
            FROM json_to_recordset(traces) AS given (id text, message_id text, conversation_id text)
                JOIN $schema.messages AS stored ON stored.id = given.message_id
            WHERE stored.conversation_id <> given.conversation_id
            LIMIT 1);
        IF misplaced IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'JZ002', MESSAGE = misplaced;
        END IF;
        INSERT INTO $schema.turn_traces AS stored ($turn_traces.columns)
        SELECT $turn_traces.values
        FROM json_to_recordset(traces) AS given ($turn_traces.definitions)
        ON CONFLICT (message_id) DO UPDATE SET $turn_traces.replacements,
            seq = CASE WHEN stored.id = excluded.id THEN stored.seq ELSE excluded.seq END
        WHERE $turn_traces.is_changed;
    END IF;
    $finish('', NULL)
END
$body$;

-- The answer is '1' if the message was stored, else '0'.
CREATE FUNCTION $schema.jazzmine_flag_message(message_id text, flagged boolean, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text := '0';
BEGIN
    UPDATE $schema.messages SET is_flagged = flagged
    WHERE id = message_id $scoped{AND $of_viewer};
    IF FOUND THEN
        answer := '1';
    END IF;
    $finish(answer, NULL)
END
$body$;

-- Its trace is deleted with it. The answer is as that of jazzmine_flag_message.
CREATE FUNCTION $schema.jazzmine_delete_message(message_id text, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text := '0';
    owner text := (
        SELECT conversation_id FROM $schema.messages
        WHERE id = message_id $scoped{AND $of_viewer});
BEGIN
    IF owner IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared($lock(owner));
    END IF;
    DELETE FROM $schema.messages WHERE id = message_id $scoped{AND $of_viewer};
    IF FOUND THEN
        answer := '1';
    END IF;
    $finish(answer, NULL)
END
$body$;

-- The answer is the row that was stored already, or ''.
CREATE FUNCTION $schema.jazzmine_create_conversation(conversation_id text, conversation json, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text := '';
    attempts integer := 0;
    named text[];
BEGIN
    LOOP
        -- Most often it is stored already.
        SELECT $conversations.object, ARRAY[user_id] INTO answer, named
        FROM $schema.conversations WHERE id = conversation_id;
        EXIT WHEN FOUND;
        INSERT INTO $schema.conversations ($conversations.columns)
        SELECT $conversations.values
        FROM json_to_record(conversation) AS given ($conversations.definitions)
        ON CONFLICT (id) DO NOTHING;
        IF FOUND THEN
            answer := '';
            EXIT;
        END IF;
        attempts := attempts + 1;
        IF attempts > 2 AND row_security_active('$schema.conversations') THEN
            -- It is stored, and a policy hides it.
            RAISE EXCEPTION USING ERRCODE = 'JZ004', TABLE = 'conversations',
                MESSAGE = conversation_id;
        END IF;
    END LOOP;
    $finish(answer, named)
END
$body$;

-- The answer is the row as it is stored now, or '' if there is none.
--
-- A sealed one is answered as it is.
--
-- removed: keys of the metadata; changes: an object with keys and values to set.
CREATE FUNCTION $schema.jazzmine_edit_conversation(
    conversation_id text, new_title text, removed text[], changes jsonb, $fence
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text;
    named text[];
BEGIN
    UPDATE $schema.conversations
    SET title = coalesce(new_title, title), metadata = (metadata - removed) || changes
    WHERE id = conversation_id AND NOT coalesce(jsonb_exists(metadata, 'jazzmine:sealed'), false)
        $scoped{AND user_id = viewer}
    RETURNING $conversations.object, ARRAY[user_id] INTO answer, named;
    IF NOT FOUND THEN
        SELECT $conversations.object, ARRAY[user_id] INTO answer, named
        FROM $schema.conversations WHERE id = conversation_id $scoped{AND user_id = viewer};
    END IF;
    answer := coalesce(answer, '');
    $finish(answer, named)
END
$body$;

-- Its messages are deleted with it. The answer is as that of jazzmine_flag_message.
CREATE FUNCTION $schema.jazzmine_delete_conversation(owner text, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text := '0';
BEGIN
    $seen(owner)
    PERFORM pg_advisory_xact_lock($lock(owner));
    PERFORM 1 FROM $schema.conversations WHERE id = owner $scoped{AND user_id = viewer} FOR UPDATE;
    $seen(owner)
    PERFORM 1 FROM $schema.messages WHERE conversation_id = owner
    ORDER BY id COLLATE "C" FOR UPDATE;
    DELETE FROM $schema.conversations WHERE id = owner;
    IF FOUND THEN
        answer := '1';
    END IF;
    $finish(answer, NULL)
END
$body$;
