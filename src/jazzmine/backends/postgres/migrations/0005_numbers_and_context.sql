-- Several messages that are stored at once are numbered in the order given and inserted in the
-- order of their ids. So the numbers are drawn first, and with the rights of the sequence's owner:
-- who may insert into a table may use its identity column, but not draw a number from it.

CREATE FUNCTION $schema.jazzmine_message_numbers(count integer) RETURNS SETOF bigint
    LANGUAGE sql VOLATILE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $numbers$
        SELECT nextval((SELECT pg_get_serial_sequence('$schema.messages', 'seq')::regclass))
        FROM generate_series(1, count)
    $numbers$;

-- The messages that a context may hold, so that its cost does not grow with those it may not.

CREATE INDEX idx_msg_visible ON $schema.messages (conversation_id, timestamp, seq)
    WHERE NOT is_flagged;
