-- Deletes about `size` messages of the given conversations, those of the first one first, and each conversation
-- with its last message. Each is given as an object with its id and metadata, and is left as it is if it has
-- other metadata now, or is not older than `before`. Returns how many conversations were deleted, and how many
-- of the first ones need no other call.

CREATE OR REPLACE FUNCTION $schema.jazzmine_prune(
    given jsonb, before bigint, size bigint, OUT pruned bigint, OUT done bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    one record;
    step record;
    messages bigint := 0;
BEGIN
    pruned := 0;
    done := 0;
    FOR one IN SELECT * FROM jsonb_to_recordset(given) AS listed (id text, metadata jsonb) LOOP
        EXIT WHEN messages >= size;
        PERFORM FROM $schema.conversations
        WHERE id = one.id AND last_updated_at < before AND metadata = coalesce(one.metadata, '{}')
        FOR UPDATE;
        IF FOUND AND coalesce((
            SELECT timestamp FROM $schema.messages WHERE conversation_id = one.id
            ORDER BY timestamp DESC, seq DESC LIMIT 1) < before, true)
        THEN
            SELECT * INTO step FROM $schema.jazzmine_delete_oldest(one.id, size - messages);
            messages := messages + step.messages;
            pruned := pruned + step.conversations;
            EXIT WHEN step.conversations = 0;
        END IF;
        done := done + 1;
    END LOOP;
END
$body$;
