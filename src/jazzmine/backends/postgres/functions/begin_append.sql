-- Locks a conversation against others that append, pop or rewind, and looks whether messages may be appended
-- to it now. Each query of the function sees what was committed before it began, so after the lock.
--
-- If they may (is_fine), the messages after last_kept are deleted (with is_replacing; all if it is null),
-- last_updated_at is raised, and the calling statement stores the messages: none earlier than last_timestamp,
-- the timestamp of the newest message that is left, or the smallest number. Otherwise nothing is changed, and
-- the result says what was found: whether the conversation is known, its newest message, how many of the ids
-- are stored, and whether last_kept is a message of the conversation.

CREATE OR REPLACE FUNCTION $schema.jazzmine_begin_append(
    owner text, ids text[], latest bigint, is_any boolean, expected_last text, is_replacing boolean,
    last_kept text,
    OUT is_fine boolean, OUT last_timestamp bigint, OUT is_known boolean, OUT newest_id text,
    OUT stored bigint, OUT is_replaced boolean
) LANGUAGE plpgsql AS $body$
DECLARE
    last_seq bigint := -9223372036854775808;
BEGIN
    PERFORM FROM $schema.conversations WHERE id = owner FOR NO KEY UPDATE;
    is_known := FOUND;
    is_replaced := true;
    SELECT id, timestamp INTO newest_id, last_timestamp FROM $schema.messages
    WHERE conversation_id = owner ORDER BY timestamp DESC, seq DESC LIMIT 1;
    -- Each by itself: a plan made while the table was small would read all of it for `id = ANY(ids)`.
    SELECT count(*) INTO stored FROM unnest(ids) AS given,
        LATERAL (SELECT FROM $schema.messages WHERE id = given LIMIT 1) AS found;
    IF is_replacing THEN
        last_timestamp := NULL;
        IF last_kept IS NOT NULL THEN
            SELECT timestamp, seq INTO last_timestamp, last_seq FROM $schema.messages
            WHERE id = last_kept AND conversation_id = owner;
            is_replaced := FOUND;
        END IF;
    END IF;
    is_fine := is_known AND is_replaced AND stored = 0
        AND (is_any OR newest_id IS NOT DISTINCT FROM expected_last);
    last_timestamp := coalesce(last_timestamp, -9223372036854775808);
    IF is_fine AND is_replacing THEN
        DELETE FROM $schema.messages
        WHERE conversation_id = owner AND (timestamp, seq) > (last_timestamp, last_seq);
    END IF;
    IF is_fine THEN
        UPDATE $schema.conversations SET last_updated_at = greatest(latest, last_timestamp)
        WHERE id = owner AND last_updated_at < greatest(latest, last_timestamp);
    END IF;
END
$body$;
