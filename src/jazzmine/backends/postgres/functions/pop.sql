-- Deletes a message if it is the newest one of its conversation, and still this version of it. Returns whether
-- it was. The lock keeps others from appending meanwhile.

CREATE OR REPLACE FUNCTION $schema.jazzmine_pop(owner text, read_id text, version text) RETURNS boolean
    LANGUAGE plpgsql AS $body$
BEGIN
    UPDATE $schema.conversations SET title = title WHERE id = owner;
    DELETE FROM $schema.messages
    WHERE xmin::text = version AND id = read_id AND id = (
        SELECT id FROM $schema.messages WHERE conversation_id = owner
        ORDER BY timestamp DESC, seq DESC LIMIT 1);
    RETURN FOUND;
END
$body$;
