-- The id of the copy of a record: with one salt, it is always the same.

CREATE OR REPLACE FUNCTION $schema.jazzmine_forked_id(salt text, id text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT AS $body$
SELECT overlay(overlay(left(encode(sha256(convert_to(salt || id, 'UTF8')), 'hex'), 32)
    PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid::text
$body$;

-- Stores a conversation, given as an object with its columns, and copies of the messages of another one, up to
-- last_copied or all, with their traces; a copy is the row with other ids, so that it has the columns of an
-- application, too. Until this is committed, nobody else writes to the conversation that is copied.
--
-- Returns an object with the ids of the copies by those of the messages, or a word that says what hinders the
-- copy: 'conversation', 'message' or 'copy'.

CREATE OR REPLACE FUNCTION $schema.jazzmine_fork(
    owner text, last_copied text, copy jsonb, salt text
) RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    last_timestamp bigint := 9223372036854775807;
    last_seq bigint := 9223372036854775807;
    ids text[];
    answer text;
BEGIN
    PERFORM FROM $schema.conversations WHERE id = owner FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'conversation';
    END IF;
    IF last_copied IS NOT NULL THEN
        SELECT timestamp, seq INTO last_timestamp, last_seq FROM $schema.messages
        WHERE id = last_copied AND conversation_id = owner FOR SHARE;
        IF NOT FOUND THEN
            RETURN 'message';
        END IF;
    END IF;
    INSERT INTO $schema.conversations OVERRIDING USER VALUE
    SELECT copied.* FROM $schema.conversations AS source, jsonb_populate_record(source, copy) AS copied
    WHERE source.id = owner
    ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'copy';
    END IF;
    ids := ARRAY(
        SELECT id FROM $schema.messages
        WHERE conversation_id = owner AND (timestamp, seq) <= (last_timestamp, last_seq)
        ORDER BY timestamp, seq FOR SHARE);
    INSERT INTO $schema.messages OVERRIDING USER VALUE
    SELECT copied.* FROM $schema.messages AS source, jsonb_populate_record(source, jsonb_build_object(
        'id', $schema.jazzmine_forked_id(salt, source.id), 'conversation_id', copy ->> 'id')) AS copied
    WHERE source.id = ANY(ids) ORDER BY source.timestamp, source.seq;
    INSERT INTO $schema.turn_traces OVERRIDING USER VALUE
    SELECT copied.* FROM $schema.turn_traces AS source, jsonb_populate_record(source, jsonb_build_object(
        'id', $schema.jazzmine_forked_id(salt, source.id), 'conversation_id', copy ->> 'id',
        'message_id', $schema.jazzmine_forked_id(salt, source.message_id),
        'copied_from', source.id)) AS copied
    WHERE source.message_id = ANY(ids) ORDER BY source.seq;
    SELECT coalesce(json_object_agg(id, $schema.jazzmine_forked_id(salt, id) ORDER BY position), '{}')
    INTO answer FROM unnest(ids) WITH ORDINALITY AS one (id, position);
    RETURN answer;
END
$body$;
