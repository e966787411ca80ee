-- The index of words of a schema that has one: these are the functions of its triggers.

-- The terms of a message: its words, and its user, conversation, role and the user of the conversation. Lexemes
-- have at most 2,046 bytes, and an id may be longer: it is hashed. No word begins with a colon.

CREATE OR REPLACE FUNCTION $schema.jazzmine_terms(
    words text, user_id text, conversation_id text, role text, viewer text
) RETURNS tsvector LANGUAGE sql STABLE AS $body$
SELECT array_to_tsvector(string_to_array(translate(coalesce(words, ''), '|', ' '), ' ') || ARRAY[
    ':u' || left(encode(sha256(convert_to(user_id, 'UTF8')), 'hex'), 32),
    ':c' || left(encode(sha256(convert_to(conversation_id, 'UTF8')), 'hex'), 32),
    ':v' || left(encode(sha256(convert_to(viewer, 'UTF8')), 'hex'), 32),
    ':r' || left(role, 64)])
$body$;

-- Follows a message. The argument is the language of the index: an entry that is missing, or begins with another
-- one, was stored by a process that does not know of the index, and is made later. The lock makes one wait
-- that gives the conversation to another user.

CREATE OR REPLACE FUNCTION $schema.jazzmine_index_message() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE
    viewer text;
    words text;
BEGIN
    SELECT user_id INTO viewer FROM $schema.conversations WHERE id = new.conversation_id FOR SHARE;
    IF starts_with(new.entry, TG_ARGV[0] || ':') THEN
        words := substr(new.entry, length(TG_ARGV[0]) + 2);
    END IF;
    INSERT INTO $schema.message_words AS stored
        (message_id, conversation_id, timestamp, seq, is_pending, terms)
    VALUES (new.id, new.conversation_id, new.timestamp, new.seq, words IS NULL,
        $schema.jazzmine_terms(words, new.user_id, new.conversation_id, new.role, viewer))
    ON CONFLICT (message_id) DO UPDATE SET timestamp = excluded.timestamp,
        is_pending = excluded.is_pending, terms = excluded.terms
    WHERE (stored.timestamp, stored.is_pending, stored.terms)
        IS DISTINCT FROM (excluded.timestamp, excluded.is_pending, excluded.terms);
    RETURN NULL;
END
$body$;

-- Follows a conversation that becomes another user's.

CREATE OR REPLACE FUNCTION $schema.jazzmine_index_owner() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    UPDATE $schema.message_words AS words SET terms = $schema.jazzmine_terms(
        CASE WHEN NOT words.is_pending THEN substr(message.entry, strpos(message.entry, ':') + 1) END,
        message.user_id, message.conversation_id, message.role, new.user_id)
    FROM $schema.messages AS message
    WHERE message.conversation_id = new.id AND words.message_id = message.id;
    RETURN NULL;
END
$body$;
