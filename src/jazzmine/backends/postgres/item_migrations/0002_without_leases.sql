-- Writes need no leases of connections, and other functions. The planner keeps no statistics of what items hold;
-- setting the type, which does not change, removes what it has kept.

DO $drop$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT oid::regprocedure FROM pg_proc
        WHERE pronamespace = to_regnamespace('$schema')
            AND proname ~ '^jazzmine_(change|erase|prune|renew|restore)_items(_scoped)?$'
    LOOP
        EXECUTE 'DROP FUNCTION ' || function;
    END LOOP;
    -- Those of messages are dropped with the functions that use them.
    IF to_regclass('$schema.jazzmine_migrations') IS NULL THEN
        DROP TABLE IF EXISTS $schema.jazzmine_leases;
    END IF;
END
$drop$;

ALTER TABLE $schema.memory_items
    ALTER COLUMN value SET STATISTICS 0, ALTER COLUMN value TYPE jsonb,
    ALTER COLUMN data SET STATISTICS 0, ALTER COLUMN data TYPE bytea,
    ALTER COLUMN vector SET STATISTICS 0, ALTER COLUMN vector TYPE bytea;
