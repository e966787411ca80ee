-- The writes of a long-term memory. Rows are locked in the order of their paths, so that two calls never
-- wait for each other. An item that has expired is not there.

-- Makes changes of different items, all of them or none. A change without a value is a deletion. Nothing
-- is changed if one that is not of `any` item meets another revision than it expects: null is none.
-- `vector` and `data` are parts of `bytes`: where each begins, from 1 on, and its length.
--
-- The answer is an array with, for each change, its revision and times, or whether there was an item to
-- delete; or an object with the index of the first change that was not expected, and the revision found.
CREATE FUNCTION $schema.jazzmine_change_items(
    changes json, count bigint, are_any boolean, bytes bytea, $fence
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    answer text;
    change record;
    locked text[] := '{}';
    moment bigint;
    outcomes text[] := '{}';
    is_there boolean;
    new_revision bigint;
    first_stored bigint;
BEGIN
    IF count > 1 OR NOT are_any THEN
        locked := ARRAY(
            SELECT path FROM $schema.memory_items
            WHERE path IN (SELECT path FROM json_to_recordset(changes) AS given (path text))
                $scoped{AND (user_id = viewer OR expires_at <= extract(epoch FROM now()) * 1000)}
            ORDER BY path FOR UPDATE);
    END IF;
    moment := extract(epoch FROM clock_timestamp()) * 1000;
    IF NOT are_any THEN
        SELECT json_build_object('index', given.position - 1, 'revision', stored.revision)::text
        INTO answer
        FROM ROWS FROM (
            json_to_recordset(changes) AS (path text, is_any boolean, expected bigint)
        ) WITH ORDINALITY AS given (path, is_any, expected, position)
        LEFT JOIN $schema.memory_items AS stored
            ON stored.path = given.path AND coalesce(stored.expires_at > moment, true)
            $scoped{AND stored.user_id = viewer}
        WHERE NOT given.is_any AND stored.revision IS DISTINCT FROM given.expected
        ORDER BY given.position LIMIT 1;
    END IF;
    IF answer IS NULL THEN
        $scoped{PERFORM $schema.jazzmine_refuse_taken(viewer, changes, moment);}
        FOR change IN
            SELECT * FROM json_to_recordset(changes) AS given (path text, is_any boolean,
                value jsonb, user_id text, source_message_id text, expires_at bigint,
                vector_at integer, vector_size integer, data_at integer, data_size integer)
        LOOP
            IF change.value IS NULL THEN
                is_there := NULL;
                DELETE FROM $schema.memory_items
                WHERE path = change.path AND (change.is_any OR path = ANY(locked))
                    $scoped{AND user_id = viewer}
                RETURNING coalesce(expires_at > moment, true) INTO is_there;
                outcomes := outcomes || coalesce(is_there, false)::text;
            ELSE
                INSERT INTO $schema.memory_items AS stored (path, user_id, source_message_id,
                    created_at, updated_at, expires_at, revision, value, vector, data)
                VALUES (change.path, change.user_id, change.source_message_id, moment, moment,
                    change.expires_at, nextval('$schema.memory_item_revisions'), change.value,
                    substr(bytes, change.vector_at, change.vector_size),
                    substr(bytes, change.data_at, change.data_size))
                ON CONFLICT (path) DO UPDATE SET user_id = excluded.user_id,
                    source_message_id = excluded.source_message_id,
                    created_at = CASE WHEN stored.expires_at <= moment THEN moment
                        ELSE stored.created_at END,
                    updated_at = moment, expires_at = excluded.expires_at,
                    -- A later number than that of another call, which this one has waited for.
                    revision = nextval('$schema.memory_item_revisions'),
                    value = excluded.value, vector = excluded.vector, data = excluded.data
                WHERE (change.is_any OR stored.path = ANY(locked))
                    $scoped{AND (stored.user_id = viewer OR stored.expires_at <= moment)}
                RETURNING revision, created_at INTO new_revision, first_stored;
                IF NOT FOUND THEN
                    IF row_security_active('$schema.memory_items')
                        AND NOT EXISTS (SELECT FROM $schema.memory_items WHERE path = change.path)
                    THEN -- a policy hides it
                        RAISE EXCEPTION USING ERRCODE = 'JZ004', TABLE = 'memory_items',
                            MESSAGE = change.path;
                    END IF;
                    -- Another call has stored an item where there was none: the client calls again.
                    RAISE serialization_failure;
                END IF;
                outcomes := outcomes || format('[%s,%s,%s]', new_revision, first_stored, moment);
            END IF;
        END LOOP;
        answer := '[' || array_to_string(outcomes, ',') || ']';
    END IF;
    $finish(answer, NULL)
END
$body$;

-- Raises an error if an item would take the place of one that is not the viewer's.
CREATE FUNCTION $schema.jazzmine_refuse_taken(viewer text, changes json, moment bigint)
    RETURNS void LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    taken text := (
        SELECT given.path
        FROM ROWS FROM (
            json_to_recordset(changes) AS (path text, value jsonb)
        ) WITH ORDINALITY AS given (path, value, position)
            JOIN $schema.memory_items AS stored ON stored.path = given.path
        WHERE given.value IS NOT NULL AND stored.user_id IS DISTINCT FROM viewer
            AND coalesce(stored.expires_at > moment, true)
        ORDER BY given.position LIMIT 1);
BEGIN
    IF taken IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'JZ004', TABLE = 'memory_items', MESSAGE = taken;
    END IF;
END
$body$;

-- Sets when items expire, each where the item has the revision still and has not expired, and answers how
-- many these are.
CREATE FUNCTION $schema.jazzmine_renew_items(renewals json, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    locked text[] := ARRAY(
        SELECT path FROM $schema.memory_items
        WHERE path IN (SELECT path FROM json_to_recordset(renewals) AS given (path text))
            $scoped{AND user_id = viewer}
        ORDER BY path FOR NO KEY UPDATE);
    moment bigint := extract(epoch FROM clock_timestamp()) * 1000;
    renewed bigint;
BEGIN
    UPDATE $schema.memory_items AS stored SET expires_at = given.expires_at
    FROM json_to_recordset(renewals) AS given (path text, revision bigint, expires_at bigint)
    WHERE stored.path = ANY(locked) AND stored.path = given.path
        AND stored.revision = given.revision AND coalesce(stored.expires_at > moment, true)
        $scoped{AND stored.user_id = viewer};
    GET DIAGNOSTICS renewed = ROW_COUNT;
    $finish(renewed::text, NULL)
END
$body$;

-- Stores items with the times and the revisions that they have, of which `last` is the highest, in place
-- of those at their paths. While another call takes revisions, it writes to the table: so none is lost when
-- the sequence is set to a higher one.
CREATE FUNCTION $schema.jazzmine_restore_items(items json, last_revision bigint, bytes bytea, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    restored bigint;
BEGIN
    IF coalesce(pg_sequence_last_value('$schema.memory_item_revisions'), 0) < last_revision THEN
        LOCK TABLE $schema.memory_items IN SHARE ROW EXCLUSIVE MODE;
        IF coalesce(pg_sequence_last_value('$schema.memory_item_revisions'), 0) < last_revision THEN
            PERFORM setval('$schema.memory_item_revisions', last_revision);
        END IF;
    END IF;
    INSERT INTO $schema.memory_items (path, user_id, source_message_id, created_at, updated_at,
        expires_at, revision, value, vector, data)
    SELECT path, user_id, source_message_id, created_at, updated_at, expires_at, revision, value,
        substr(bytes, vector_at, vector_size), substr(bytes, data_at, data_size)
    FROM json_to_recordset(items) AS given (path text, user_id text, source_message_id text,
        created_at bigint, updated_at bigint, expires_at bigint, revision bigint, value jsonb,
        vector_at integer, vector_size integer, data_at integer, data_size integer)
    ORDER BY path
    ON CONFLICT (path) DO UPDATE SET user_id = excluded.user_id,
        source_message_id = excluded.source_message_id, created_at = excluded.created_at,
        updated_at = excluded.updated_at, expires_at = excluded.expires_at,
        revision = excluded.revision, value = excluded.value, vector = excluded.vector,
        data = excluded.data;
    GET DIAGNOSTICS restored = ROW_COUNT;
    $finish(restored::text, NULL)
END
$body$;

-- Deletes up to `size` items of a user, and answers how many.
CREATE FUNCTION $schema.jazzmine_erase_items(erased_user text, size bigint, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    erased bigint;
BEGIN
    DELETE FROM $schema.memory_items WHERE path = ANY(ARRAY(
        SELECT path FROM $schema.memory_items WHERE user_id = erased_user
        ORDER BY path LIMIT size FOR UPDATE));
    GET DIAGNOSTICS erased = ROW_COUNT;
    $finish(erased::text, NULL)
END
$body$;

-- Deletes up to `size` expired items that no other call has locked, and answers how many.
CREATE FUNCTION $schema.jazzmine_prune_items(size bigint, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    pruned bigint;
    moment bigint := extract(epoch FROM clock_timestamp()) * 1000;
BEGIN
    DELETE FROM $schema.memory_items WHERE path = ANY(ARRAY(
        SELECT path FROM $schema.memory_items WHERE expires_at <= moment $scoped{AND user_id = viewer}
        ORDER BY expires_at LIMIT size FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS pruned = ROW_COUNT;
    $finish(pruned::text, NULL)
END
$body$;
