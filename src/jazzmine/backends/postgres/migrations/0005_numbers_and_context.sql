-- Messages that are stored by one statement are numbered in the given order and inserted in the
-- order of their ids, so their numbers are read first. The function runs with the rights of its
-- owner, because the right to insert into a table does not include nextval() of its sequence.

CREATE FUNCTION $schema.jazzmine_message_numbers(count integer) RETURNS SETOF bigint
    LANGUAGE sql VOLATILE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $numbers$
        SELECT nextval((SELECT pg_get_serial_sequence('$schema.messages', 'seq')::regclass))
        FROM generate_series(1, count)
    $numbers$;

-- The messages that are not flagged: reading them costs nothing for those that are.

CREATE INDEX idx_msg_visible ON $schema.messages (conversation_id, timestamp, seq)
    WHERE NOT is_flagged;
