-- The table that version 1.2 made had a lock for each update, a queue for it, and the results of its
-- tokens. Its states are kept.

ALTER TABLE $schema.working_memory
    DROP COLUMN IF EXISTS lock_expires_at,
    DROP COLUMN IF EXISTS lock_token,
    DROP COLUMN IF EXISTS queue,
    DROP COLUMN IF EXISTS results,
    ADD COLUMN IF NOT EXISTS mark text NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS writers jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS lock jsonb;

UPDATE $schema.working_memory SET mark = '1.2';

DROP FUNCTION IF EXISTS $schema.jazzmine_memory_delete(text, text, bigint);
DROP FUNCTION IF EXISTS $schema.jazzmine_memory_erase(text, text, text, bigint);
DROP FUNCTION IF EXISTS $schema.jazzmine_memory_hand_over(text, jsonb);
DROP FUNCTION IF EXISTS $schema.jazzmine_memory_head(jsonb);
DROP FUNCTION IF EXISTS $schema.jazzmine_memory_release(text, text, bigint);
DROP FUNCTION IF EXISTS $schema.jazzmine_memory_result(text, text);
DROP FUNCTION IF EXISTS $schema.jazzmine_memory_results(jsonb, text, text, bigint);
DROP FUNCTION IF EXISTS $schema.jazzmine_memory_save(
    text, text, bytea, text, integer, bigint, bigint);
DROP FUNCTION IF EXISTS $schema.jazzmine_memory_take(
    text, text, bigint, text, integer, boolean);
