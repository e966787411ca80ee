-- The writes of a long-term memory that read before they write. They are given items in the order of their paths,
-- and lock rows in that order, so that two calls never wait for each other. Each row is found by a query of its
-- own, and always by the index: what is planned while the table is small would go on reading all of it while it
-- grows. An item that has expired is not there.

-- Makes changes of different items, all of them or none. A change without a value is a deletion. Nothing
-- is changed if one that is not of `any` item meets another revision than it expects: null is none.
-- The bytes of each are in the arrays, at its position, from 1 on.
--
-- The answer is an array with, for each change, its revision and times, or whether there was an item to
-- delete; or an object with the index of a change that was not expected, and the revision of the item.

CREATE OR REPLACE FUNCTION $schema.jazzmine_change_items(
    changes json, are_any boolean, vectors bytea[], contents bytea[]
) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $body$
#variable_conflict use_column
DECLARE
    change record;
    item record;
    locked text[] := '{}';
    moment bigint;
    outcomes text[] := '{}';
    is_there boolean;
BEGIN
    IF NOT are_any THEN
        FOR change IN
            SELECT * FROM json_to_recordset(changes)
                AS given (position integer, path text, is_any boolean, expected bigint)
        LOOP
            SELECT path, CASE WHEN coalesce(expires_at > extract(epoch FROM clock_timestamp()) * 1000, true)
                THEN revision END AS revision
            INTO item FROM $schema.memory_items WHERE path = change.path FOR UPDATE;
            IF item.revision IS DISTINCT FROM change.expected AND NOT change.is_any THEN
                RETURN json_build_object('index', change.position - 1, 'revision', item.revision);
            END IF;
            locked := locked || item.path;
        END LOOP;
    END IF;
    moment := extract(epoch FROM clock_timestamp()) * 1000;
    FOR change IN
        SELECT * FROM json_to_recordset(changes) AS given (position integer, path text, is_any boolean,
            value jsonb, user_id text, source_message_id text, expires_at bigint)
    LOOP
        IF change.value IS NULL THEN
            is_there := NULL;
            DELETE FROM $schema.memory_items
            WHERE path = change.path AND (change.is_any OR path = ANY(locked))
            RETURNING coalesce(expires_at > moment, true) INTO is_there;
            outcomes := outcomes || coalesce(is_there, false)::text;
        ELSE
            INSERT INTO $schema.memory_items AS stored (path, user_id, source_message_id,
                created_at, updated_at, expires_at, revision, value, vector, data)
            VALUES (change.path, change.user_id, change.source_message_id, moment, moment,
                change.expires_at, nextval('$schema.memory_item_revisions'), change.value,
                vectors[change.position], contents[change.position])
            ON CONFLICT (path) DO UPDATE SET user_id = excluded.user_id,
                source_message_id = excluded.source_message_id,
                created_at = CASE WHEN stored.expires_at <= moment THEN moment
                    ELSE stored.created_at END,
                -- Later than the change of another call, which this one has waited for.
                updated_at = greatest(moment, stored.updated_at), expires_at = excluded.expires_at,
                revision = nextval('$schema.memory_item_revisions'),
                value = excluded.value, vector = excluded.vector, data = excluded.data
            WHERE change.is_any OR stored.path = ANY(locked)
            RETURNING revision, created_at, updated_at INTO item;
            IF NOT FOUND THEN
                IF row_security_active('$schema.memory_items')
                    AND NOT EXISTS (SELECT FROM $schema.memory_items WHERE path = change.path)
                THEN
                    RAISE EXCEPTION 'the item is stored, and a policy hides it from this role';
                END IF;
                -- Another call has stored an item where there was none: the client calls again.
                RAISE serialization_failure;
            END IF;
            outcomes := outcomes
                || format('[%s,%s,%s]', item.revision, item.created_at, item.updated_at);
        END IF;
    END LOOP;
    RETURN '[' || array_to_string(outcomes, ',') || ']';
END
$body$;

-- Stores items with the times and the revisions that they have, of which `last` is the highest, in place
-- of those at their paths. While another call takes revisions, it writes to the table: so none is lost when
-- the sequence is set to a higher one.

CREATE OR REPLACE FUNCTION $schema.jazzmine_restore_items(
    items json, last_revision bigint, vectors bytea[], contents bytea[]
) RETURNS void LANGUAGE plpgsql AS $body$
#variable_conflict use_column
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
        vectors[ordinality], contents[ordinality]
    FROM json_populate_recordset(NULL::$schema.memory_items, items) WITH ORDINALITY ORDER BY path
    ON CONFLICT (path) DO UPDATE SET user_id = excluded.user_id,
        source_message_id = excluded.source_message_id, created_at = excluded.created_at,
        updated_at = excluded.updated_at, expires_at = excluded.expires_at,
        revision = excluded.revision, value = excluded.value, vector = excluded.vector,
        data = excluded.data;
END
$body$;
