-- Adds the entries of messages to the index of words, if the messages are still those versions and have
-- no entry. A message that another call has locked is left to the next call.
CREATE FUNCTION $schema.jazzmine_index(entries json, $fence)
    RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    indexed bigint;
    locked text[] := ARRAY(
        SELECT stored.id
        FROM json_to_recordset(entries) AS given (id text, version text)
            JOIN $schema.messages AS stored
                ON stored.id = given.id AND stored.xmin::text = given.version
        FOR SHARE OF stored SKIP LOCKED);
BEGIN
    $index_given(json_to_recordset(entries))
    GET DIAGNOSTICS indexed = ROW_COUNT;
    $finish(indexed::text, NULL)
END
$body$;

-- Follows a conversation that becomes another user's. The lock waits for messages that are being stored with
-- the term of the user before. A call that has the lock may wait for the row that this one has changed: the
-- server ends one of the two, and its store repeats it.
CREATE FUNCTION $schema.jazzmine_index_owner() RETURNS trigger
    LANGUAGE plpgsql AS $body$
#variable_conflict use_column
DECLARE
    owner text := new.id;
BEGIN
    PERFORM pg_advisory_xact_lock($lock(owner));
    $index_owner()
    RETURN NULL;
END
$body$;
