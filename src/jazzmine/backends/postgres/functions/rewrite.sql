-- Stores records in place of the same ones, each only if it is still the version that the caller has
-- read. The answer is an array with the ids of those that were stored.

CREATE FUNCTION $schema.jazzmine_rewrite_conversations(
    ids text[], versions text[], records json, $fence
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    written text[];
BEGIN
    PERFORM 1 FROM $schema.conversations WHERE id = ANY(ids)
    ORDER BY id COLLATE "C" FOR NO KEY UPDATE;
    WITH rewritten AS (
        UPDATE $schema.conversations AS stored SET $conversations.replacements
        FROM (
            SELECT $conversations.values
            FROM json_to_recordset(records) AS given ($conversations.definitions)
        ) AS excluded ($conversations.columns)
        WHERE stored.id = excluded.id
            AND stored.xmin::text = versions[array_position(ids, stored.id)]
        RETURNING stored.id
    )
    SELECT array_agg(id) INTO written FROM rewritten;
    $finish(coalesce(array_to_json(written)::text, '[]'), NULL)
END
$body$;

CREATE FUNCTION $schema.jazzmine_rewrite_messages(
    ids text[], versions text[], records json, $fence
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    written text[];
BEGIN
    PERFORM 1 FROM $schema.messages WHERE id = ANY(ids)
    ORDER BY id COLLATE "C" FOR NO KEY UPDATE;
    WITH rewritten AS (
        UPDATE $schema.messages AS stored SET $messages.replacements
        FROM (
            SELECT $messages.values
            FROM json_to_recordset(records) AS given ($messages.definitions)
        ) AS excluded ($messages.columns)
        WHERE stored.id = excluded.id
            AND stored.xmin::text = versions[array_position(ids, stored.id)]
        RETURNING stored.id
    )
    SELECT array_agg(id) INTO written FROM rewritten;
    $finish(coalesce(array_to_json(written)::text, '[]'), NULL)
END
$body$;

CREATE FUNCTION $schema.jazzmine_rewrite_traces(
    ids text[], versions text[], records json, $fence
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    written text[];
BEGIN
    PERFORM 1 FROM $schema.turn_traces WHERE id = ANY(ids)
    ORDER BY id COLLATE "C" FOR NO KEY UPDATE;
    WITH rewritten AS (
        UPDATE $schema.turn_traces AS stored SET $turn_traces.replacements
        FROM (
            SELECT $turn_traces.values
            FROM json_to_recordset(records) AS given ($turn_traces.definitions)
        ) AS excluded ($turn_traces.columns)
        WHERE stored.id = excluded.id
            AND stored.xmin::text = versions[array_position(ids, stored.id)]
        RETURNING stored.id
    )
    SELECT array_agg(id) INTO written FROM rewritten;
    $finish(coalesce(array_to_json(written)::text, '[]'), NULL)
END
$body$;
