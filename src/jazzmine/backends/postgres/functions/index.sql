-- The index of words of a schema that has one: this is the function of its triggers.
--
-- Follows a message. The argument is the language of the index: an entry that is missing, or begins with another
-- one, was stored by a process that does not know of the index, and is made later.
--
-- The terms of a message are its words, and its user, conversation and role. Lexemes have at most 2,046 bytes, and
-- an id may be longer: it is hashed. No word begins with a colon.

CREATE OR REPLACE FUNCTION $schema.jazzmine_index_message() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE
    words text;
BEGIN
    IF starts_with(new.entry, TG_ARGV[0] || ':') THEN
        words := substr(new.entry, length(TG_ARGV[0]) + 2);
    END IF;
    INSERT INTO $schema.message_words AS stored
        (message_id, conversation_id, timestamp, seq, is_pending, terms)
    VALUES (new.id, new.conversation_id, new.timestamp, new.seq, words IS NULL,
        array_to_tsvector(string_to_array(translate(coalesce(words, ''), '|', ' '), ' ') || ARRAY[
            ':u' || left(encode(sha256(convert_to(new.user_id, 'UTF8')), 'hex'), 32),
            ':c' || left(encode(sha256(convert_to(new.conversation_id, 'UTF8')), 'hex'), 32),
            ':r' || left(new.role, 64)]))
    ON CONFLICT (message_id) DO UPDATE SET timestamp = excluded.timestamp,
        is_pending = excluded.is_pending, terms = excluded.terms
    WHERE (stored.timestamp, stored.is_pending, stored.terms)
        IS DISTINCT FROM (excluded.timestamp, excluded.is_pending, excluded.terms);
    RETURN NULL;
END
$body$;
