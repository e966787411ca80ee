-- Each state has the marks of its last 16 saves, the newest first, and beside it the lock of a
-- `locked` block. Version 1.2 had numbers of its writers instead, tombstones, and a table of states
-- that could not be read. The states are kept.

DROP TABLE $schema.working_memory_corrupt;

DELETE FROM $schema.working_memory WHERE data IS NULL;

ALTER TABLE $schema.working_memory
    ADD COLUMN marks text,
    ADD COLUMN lock_token text,
    ADD COLUMN lock_holder text,
    ADD COLUMN lock_taken_at timestamptz,
    ADD COLUMN lock_expires_at timestamptz,
    DROP COLUMN mark,
    DROP COLUMN writers,
    DROP COLUMN lock;

UPDATE $schema.working_memory SET marks = left(md5(conversation_id || random()::text), 16);

ALTER TABLE $schema.working_memory
    ALTER COLUMN marks SET NOT NULL,
    ALTER COLUMN data SET NOT NULL,
    ALTER COLUMN format SET NOT NULL,
    ALTER COLUMN expires_at DROP DEFAULT;
