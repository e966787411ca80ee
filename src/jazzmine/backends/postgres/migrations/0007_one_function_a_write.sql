-- Changes the tables of jazzmine 1.0 to 1.2, which had other functions, to those that the second
-- migration makes, and makes the table of leases anew. New within traces: provider, cached_prompt_tokens,
-- cache_write_tokens, reasoning_tokens, cost_usd, input, output and metadata of the call of a model;
-- tool_name, call_id, arguments and started_at_ms of that of a tool.

$added_columns

DO $drop$
DECLARE
    function regprocedure;
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass('$schema.jazzmine_leases') AND attname = 'written')
    THEN
        RETURN;  -- jazzmine 1 was not here
    END IF;
    DROP TABLE $schema.jazzmine_leases;
    FOR function IN
        SELECT oid::regprocedure FROM pg_proc
        WHERE pronamespace = to_regnamespace('$schema') AND proname IN (
            'jazzmine_message_numbers', 'jazzmine_lock_conversations', 'jazzmine_lock_to_delete',
            'jazzmine_append', 'jazzmine_append_to_each', 'jazzmine_newest',
            'jazzmine_delete_message', 'jazzmine_rewind', 'jazzmine_forked_id',
            'jazzmine_fork_source', 'jazzmine_trace_numbers', 'jazzmine_fork',
            'jazzmine_oldest_messages', 'jazzmine_delete_some', 'jazzmine_erase', 'jazzmine_prune')
    LOOP
        EXECUTE 'DROP FUNCTION ' || function;
    END LOOP;
END
$drop$;

-- One row for each connection that writes: see fence.py. No connection survives a crash of the
-- server, so the table need not either: it is unlogged, and a write of it waits for no flush. The
-- fill factor leaves room on each page for updates of its rows (HOT). A long-term memory in the same
-- schema has made it already.

DO $leases$
BEGIN
    IF to_regclass('$schema.jazzmine_item_migrations') IS NULL THEN
        CREATE UNLOGGED TABLE $schema.jazzmine_leases (
            id         bigint      PRIMARY KEY,
            store      bigint      NOT NULL,
            made_at    timestamptz NOT NULL DEFAULT now(),
            is_retired boolean     NOT NULL DEFAULT false,
            calls      bigint      NOT NULL DEFAULT 0,
            result     text,
            users      text[]
        ) WITH (fillfactor = 50);
    END IF;
END
$leases$;

CREATE INDEX IF NOT EXISTS idx_conv_updated ON $schema.conversations (last_updated_at, seq);
CREATE INDEX IF NOT EXISTS idx_conv_metadata ON $schema.conversations
    USING gin (metadata jsonb_path_ops);
CREATE INDEX IF NOT EXISTS idx_msg_visible ON $schema.messages (conversation_id, timestamp, seq)
    WHERE NOT is_flagged;
CREATE INDEX IF NOT EXISTS idx_msg_flagged_calls ON $schema.messages
    (conversation_id, timestamp, seq)
    WHERE is_flagged AND role IN ('assistant', 'colleague_assistant');

-- Each role that opens a store compares the rows with the numbers that come next.
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
