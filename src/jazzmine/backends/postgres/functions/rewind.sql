-- Deletes the messages of a conversation after last_kept, or all if it is null, with their traces. Returns how
-- many, or null if last_kept is no message of the conversation. The lock keeps others from appending meanwhile.

CREATE OR REPLACE FUNCTION $schema.jazzmine_rewind(owner text, last_kept text) RETURNS bigint
    LANGUAGE plpgsql AS $body$
DECLARE
    deleted bigint;
    last_timestamp bigint := -9223372036854775808;
    last_seq bigint := -9223372036854775808;
BEGIN
    UPDATE $schema.conversations SET title = title WHERE id = owner;
    IF last_kept IS NOT NULL THEN
        SELECT timestamp, seq INTO last_timestamp, last_seq FROM $schema.messages
        WHERE id = last_kept AND conversation_id = owner;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    DELETE FROM $schema.messages
    WHERE conversation_id = owner AND (timestamp, seq) > (last_timestamp, last_seq);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$body$;
