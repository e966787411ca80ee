-- Appends messages, given as an array of objects without the fields that have their default, to a conversation:
-- none earlier than its newest message that is left. With is_replacing, the messages after last_kept are deleted
-- before, or all if it is null. last_updated_at is raised to the newest message, and the trace of one of them, an
-- array of one object, is stored. latest is the largest timestamp given.
--
-- Nothing is changed unless is_fine. The result says what was found: the timestamp of the newest message that was
-- left, or the smallest number; whether the conversation is known; the newest message; how many of the ids are
-- stored (null if it is fine); and whether last_kept is a message of the conversation.
--
-- The conversation is locked against others that append, pop or rewind. Each query of the function sees what was
-- committed before it began, so after the lock.

CREATE OR REPLACE FUNCTION $schema.jazzmine_append(
    owner text, ids text[], messages json, latest bigint, is_any boolean, expected_last text, is_replacing boolean,
    last_kept text, trace json,
    OUT is_fine boolean, OUT last_timestamp bigint, OUT is_known boolean, OUT newest_id text,
    OUT stored bigint, OUT is_replaced boolean
) LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    is_stored boolean;
    last_seq bigint := -9223372036854775808;
BEGIN
    PERFORM FROM $schema.conversations WHERE id = owner FOR NO KEY UPDATE;
    is_known := FOUND;
    is_replaced := true;
    -- Each id by itself: a plan made while the table was small would read all of it for `id = ANY(ids)`.
    SELECT newest.id, newest.timestamp, EXISTS (
        SELECT FROM unnest(ids) AS given,
            LATERAL (SELECT FROM $schema.messages WHERE id = given LIMIT 1) AS found)
    INTO newest_id, last_timestamp, is_stored
    FROM (SELECT) AS one LEFT JOIN LATERAL (
        SELECT id, timestamp FROM $schema.messages
        WHERE conversation_id = owner ORDER BY timestamp DESC, seq DESC LIMIT 1) AS newest ON true;
    IF is_replacing THEN
        last_timestamp := NULL;
        IF last_kept IS NOT NULL THEN
            SELECT timestamp, seq INTO last_timestamp, last_seq FROM $schema.messages
            WHERE id = last_kept AND conversation_id = owner;
            is_replaced := FOUND;
        END IF;
    END IF;
    is_fine := is_known AND is_replaced AND NOT is_stored
        AND (is_any OR newest_id IS NOT DISTINCT FROM expected_last);
    last_timestamp := coalesce(last_timestamp, -9223372036854775808);
    IF NOT is_fine THEN
        SELECT count(*) INTO stored FROM $schema.messages WHERE id = ANY(ids);
        RETURN;
    END IF;
    IF is_replacing THEN
        DELETE FROM $schema.messages
        WHERE conversation_id = owner AND (timestamp, seq) > (last_timestamp, last_seq);
    END IF;
    PERFORM $schema.jazzmine_store(NULL, messages, trace, last_timestamp);
    -- Always: a transaction that is REPEATABLE READ, and has waited for this one, then fails.
    UPDATE $schema.conversations SET last_updated_at = greatest(last_updated_at, latest, last_timestamp)
    WHERE id = owner;
END
$body$;
