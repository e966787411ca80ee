-- Stores records of a table in place of the same ones, each only if it is still the version that the
-- caller has read. The answer is an array with the ids of those that were stored.
CREATE FUNCTION $schema.jazzmine_rewrite_$table(
    ids text[], versions text[], records json, $fence
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    written text[];
BEGIN
    PERFORM 1 FROM $schema.$table WHERE id = ANY(ids)
    ORDER BY id COLLATE "C" FOR NO KEY UPDATE;
    WITH rewritten AS (
        UPDATE $schema.$table AS stored SET $table.replacements
        FROM (
            SELECT $table.values FROM json_to_recordset(records) AS given ($table.definitions)
        ) AS excluded ($table.columns)
        WHERE stored.id = excluded.id
            AND stored.xmin::text = versions[array_position(ids, stored.id)]
        RETURNING stored.id
    )
    SELECT array_agg(id) INTO written FROM rewritten;
    $finish(coalesce(array_to_json(written)::text, '[]'), NULL)
END
$body$;
