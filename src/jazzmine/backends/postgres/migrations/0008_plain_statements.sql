-- Writes are plain statements, and a few functions, which are made after each migration. The leases of connections
-- are gone. The entry of a message in the index of words is a column. The planner keeps no statistics of what
-- people have said; what it has kept is removed.

$added_columns
ALTER TABLE $schema.messages ADD COLUMN IF NOT EXISTS entry text;

DO $words$
BEGIN
    IF EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = to_regclass('$schema.message_words')
            AND attname = 'entry' AND NOT attisdropped)
    THEN
        UPDATE $schema.messages SET entry = substr(note.name, 8, strpos(substr(note.name, 8), ':'))
            || words.entry
        FROM $schema.message_words AS words, $schema.jazzmine_migrations AS note
        WHERE messages.id = words.message_id AND note.version = 1000;
        ALTER TABLE $schema.message_words ADD COLUMN is_pending boolean NOT NULL DEFAULT false;
        UPDATE $schema.message_words SET is_pending = true WHERE entry IS NULL;
        ALTER TABLE $schema.message_words DROP COLUMN entry;
        ALTER TABLE $schema.message_words ALTER COLUMN terms SET STATISTICS 0,
            ALTER COLUMN terms TYPE tsvector;
        CREATE INDEX idx_words_pending ON $schema.message_words (message_id) WHERE is_pending;
    END IF;
END
$words$;

DO $drop$
DECLARE
    function regprocedure;
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass('$schema.jazzmine_leases') AND attname IN ('store', 'written'))
    THEN
        RETURN;  -- no version with leases was here
    END IF;
    DROP TABLE $schema.jazzmine_leases;
    FOR function IN
        SELECT oid::regprocedure FROM pg_proc
        WHERE pronamespace = to_regnamespace('$schema') AND starts_with(proname, 'jazzmine_')
            AND NOT starts_with(proname, 'jazzmine_memory_') AND proname !~ '_items(_scoped)?$'
    LOOP
        EXECUTE 'DROP FUNCTION ' || function || ' CASCADE';
    END LOOP;
END
$drop$;

$without_statistics

CREATE INDEX IF NOT EXISTS idx_conv_updated ON $schema.conversations (last_updated_at, seq);
CREATE INDEX IF NOT EXISTS idx_conv_metadata ON $schema.conversations
    USING gin (metadata jsonb_path_ops);
CREATE INDEX IF NOT EXISTS idx_msg_visible ON $schema.messages (conversation_id, timestamp, seq)
    WHERE NOT is_flagged;
CREATE INDEX IF NOT EXISTS idx_msg_flagged_calls ON $schema.messages
    (conversation_id, timestamp, seq)
    WHERE is_flagged AND role IN ('assistant', 'colleague_assistant');

-- An erasure asks for the last number of each table.
DO $sequences$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['conversations', 'messages', 'turn_traces'] LOOP
        EXECUTE 'GRANT SELECT ON SEQUENCE '
            || pg_get_serial_sequence('$schema.' || name, 'seq') || ' TO PUBLIC';
    END LOOP;
END
$sequences$;
