-- One row for each conversation: its working memory, and the lock under which it is changed.
--
-- A row without data has a lock, or the results of tokens, which are kept for as long as a call may
-- repeat its request. `sweep_after` is a full hour, so that the index on it is rarely written, and
-- most updates write a row where there is room on its page.

CREATE TABLE $schema.working_memory (
    conversation_id text        COLLATE "C" PRIMARY KEY,
    format          integer,
    expires_at      timestamptz NOT NULL DEFAULT '-infinity',
    sweep_after     timestamptz NOT NULL,
    lock_expires_at timestamptz NOT NULL DEFAULT '-infinity',
    lock_token      text,
    user_id         text,
    queue           jsonb       NOT NULL DEFAULT '{}',
    results         jsonb       NOT NULL DEFAULT '{}',
    data            bytea
) WITH (fillfactor = 50);
CREATE INDEX idx_wm_sweep ON $schema.working_memory (sweep_after);
CREATE INDEX idx_wm_user ON $schema.working_memory (user_id) WHERE user_id IS NOT NULL;

-- Working memories that could not be read.

CREATE TABLE $schema.working_memory_corrupt (
    conversation_id text        COLLATE "C" PRIMARY KEY,
    user_id         text,
    expires_at      timestamptz NOT NULL,
    data            bytea
);
CREATE INDEX idx_wmc_user ON $schema.working_memory_corrupt (user_id);
CREATE INDEX idx_wmc_expiry ON $schema.working_memory_corrupt (expires_at);

-- A token is `store.number`: a store numbers its attempts to get locks, and has one at a time for a
-- conversation. So a row needs the result of the last token of each store alone.
--
--     queue    {token: [place, expiry, whether its store listens]}
--     results  {store: [number, result, expiry]}
--
-- Places and expiries are in microseconds since 1970. What only concerns locks need not survive a
-- crash of the server, so those transactions wait for no flush.

-- Return the token that is the first in a queue and still waits, or null.
CREATE FUNCTION $schema.jazzmine_memory_head(queue jsonb) RETURNS text
    LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    head text;
BEGIN
    IF queue = '{}' THEN
        RETURN NULL;
    END IF;
    SELECT entry.key INTO head FROM jsonb_each(queue) AS entry
    WHERE (entry.value ->> 1)::bigint > extract(epoch FROM clock_timestamp()) * 1000000
    ORDER BY (entry.value ->> 0)::bigint, entry.key
    LIMIT 1;
    RETURN head;
END
$body$;

-- Pass a lock that is free to the head of the queue. It is the new owner's for a second, in which
-- the owner has to ask for it. Returns the new owner, or null if there is none.
CREATE FUNCTION $schema.jazzmine_memory_hand_over(conversation text, waiting jsonb) RETURNS text
    LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    head text := $schema.jazzmine_memory_head(waiting);
BEGIN
    UPDATE $schema.working_memory
    SET lock_token = head,
        lock_expires_at = CASE WHEN head IS NULL THEN '-infinity'
            ELSE clock_timestamp() + interval '1 second' END,
        queue = CASE WHEN head IS NULL THEN '{}' ELSE waiting - head END
    WHERE conversation_id = conversation;
    IF (waiting -> head ->> 2)::boolean THEN
        PERFORM pg_notify('jazzmine_memory_' || split_part(head, '.', 1), head);
    END IF;
    RETURN head;
END
$body$;

-- Add a token's result to those of a row, and drop those that are too old.
CREATE FUNCTION $schema.jazzmine_memory_results(
    results jsonb, token text, result text, kept_ms bigint
) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    now_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    store text := split_part(token, '.', 1);
    others jsonb := results - store;
BEGIN
    IF others <> '{}' THEN
        SELECT coalesce(jsonb_object_agg(entry.key, entry.value), '{}') INTO others
        FROM jsonb_each(others) AS entry WHERE (entry.value ->> 2)::bigint > now_us;
    END IF;
    RETURN others || jsonb_build_object(store, jsonb_build_array(
        split_part(token, '.', 2)::bigint, result, now_us + 1000 * kept_ms));
END
$body$;

-- Return the result of a token, or null if it has none.
CREATE FUNCTION $schema.jazzmine_memory_result(conversation text, token text) RETURNS text
    LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    kept jsonb;
BEGIN
    SELECT results -> split_part(token, '.', 1) INTO kept
    FROM $schema.working_memory WHERE conversation_id = conversation;
    RETURN CASE WHEN kept ->> 0 = split_part(token, '.', 2) THEN kept ->> 1 END;
END
$body$;

-- Take a conversation's lock and read its memory under it, or join the queue for it.
--
-- At most one token holds the lock. A lock that is free goes to the head of the queue before any
-- other token. Asking again with the token that holds the lock (the reply was lost, or the lock was
-- handed over) only renews it. A token that has a result never gets the lock again, however late
-- its request arrives. A lock of `released` counts as free: a failover lost its release. `place`
-- is 0 for a request that does not join the queue, 1 for its end and -1 for its beginning.
--
-- Returns no `wait_ms` where the lock is taken, and otherwise the time until it expires.
CREATE FUNCTION $schema.jazzmine_memory_take(
    conversation text, token text, lock_ms bigint, released text, place integer, listens boolean,
    OUT wait_ms bigint, OUT data_found bytea
)
    LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    store text := split_part(token, '.', 1);
    number bigint := split_part(token, '.', 2);
    now_us bigint;
    stored record;
    holder text;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE $schema.working_memory AS memory
    SET lock_token = token,
        lock_expires_at = clock_timestamp() + lock_ms * interval '1 millisecond'
    WHERE conversation_id = conversation
        AND (lock_token IS NULL AND queue = '{}' OR lock_token = token)
        AND coalesce((results -> store ->> 0)::bigint < number, true)
    RETURNING CASE WHEN expires_at > clock_timestamp() THEN data END INTO data_found;
    IF FOUND THEN
        RETURN;
    END IF;
    LOOP
        SELECT lock_token, lock_expires_at, queue, results INTO stored
        FROM $schema.working_memory WHERE conversation_id = conversation FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO $schema.working_memory
            (conversation_id, lock_token, lock_expires_at, sweep_after)
        VALUES (conversation, token, clock_timestamp() + lock_ms * interval '1 millisecond',
            date_trunc('hour', clock_timestamp()) + interval '2 hours')
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
    IF (stored.results -> store ->> 0)::bigint >= number THEN
        wait_ms := 0;
        RETURN;
    END IF;
    holder := stored.lock_token;
    IF stored.lock_expires_at <= clock_timestamp() OR holder = released THEN
        holder := NULL;
    END IF;
    IF holder IS NULL THEN
        holder := $schema.jazzmine_memory_head(stored.queue);
        IF holder <> token THEN
            holder := $schema.jazzmine_memory_hand_over(conversation, stored.queue);
        END IF;
    END IF;
    IF holder <> token THEN
        now_us := extract(epoch FROM clock_timestamp()) * 1000000;
        UPDATE $schema.working_memory
        SET queue = CASE WHEN place = 0 THEN queue ELSE queue || jsonb_build_object(
            token, jsonb_build_array(
                coalesce((queue -> token ->> 0)::bigint, place * now_us), now_us + 5000000, listens
            )) END
        WHERE conversation_id = conversation
        RETURNING greatest(0, extract(epoch FROM lock_expires_at - clock_timestamp()) * 1000)
        INTO wait_ms;
        RETURN;
    END IF;
    UPDATE $schema.working_memory
    SET lock_token = token, queue = queue - token,
        lock_expires_at = clock_timestamp() + lock_ms * interval '1 millisecond'
    WHERE conversation_id = conversation
    RETURNING CASE WHEN expires_at > clock_timestamp() THEN data END INTO data_found;
END
$body$;

-- Write a conversation's memory, and hand its lock over.
--
-- Only the token that holds the lock writes, and it writes once: what writes also releases the lock
-- and keeps the result. Asking again (the reply was lost) finds that result and changes nothing.
--
-- Returns whether this token's memory was written, now or before; false if it lost the lock.
CREATE FUNCTION $schema.jazzmine_memory_save(
    conversation text, token text, new_data bytea, new_user text, new_format integer,
    ttl_ms bigint, kept_ms bigint
) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    moment timestamptz := clock_timestamp();
    waiting jsonb;
BEGIN
    UPDATE $schema.working_memory
    SET data = new_data, user_id = new_user, format = new_format,
        expires_at = moment + ttl_ms * interval '1 millisecond',
        sweep_after = date_trunc('hour',
            moment + greatest(ttl_ms, kept_ms) * interval '1 millisecond' + interval '1 hour'),
        lock_token = NULL, lock_expires_at = '-infinity',
        results = $schema.jazzmine_memory_results(results, token, 'saved', kept_ms)
    WHERE conversation_id = conversation AND lock_token = token
        AND lock_expires_at > clock_timestamp()
    RETURNING queue INTO waiting;
    IF NOT FOUND THEN
        RETURN coalesce($schema.jazzmine_memory_result(conversation, token) = 'saved', false);
    END IF;
    IF waiting <> '{}' THEN
        PERFORM $schema.jazzmine_memory_hand_over(conversation, waiting);
    END IF;
    RETURN true;
END
$body$;

-- Delete a conversation's memory, and hand its lock over; the rules are those of a save.
--
-- Returns whether there was a memory; null if the token lost the lock.
CREATE FUNCTION $schema.jazzmine_memory_delete(conversation text, token text, kept_ms bigint)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    waiting jsonb;
    result text;
BEGIN
    UPDATE $schema.working_memory
    SET data = NULL, user_id = NULL, format = NULL, expires_at = '-infinity',
        sweep_after = date_trunc('hour',
            clock_timestamp() + kept_ms * interval '1 millisecond' + interval '1 hour'),
        lock_token = NULL, lock_expires_at = '-infinity',
        results = $schema.jazzmine_memory_results(results, token,
            CASE WHEN data IS NOT NULL AND expires_at > clock_timestamp() THEN 'deleted'
                ELSE 'nothing' END, kept_ms)
    WHERE conversation_id = conversation AND lock_token = token
        AND lock_expires_at > clock_timestamp()
    RETURNING queue INTO waiting;
    IF waiting <> '{}' THEN
        PERFORM $schema.jazzmine_memory_hand_over(conversation, waiting);
    END IF;
    result := $schema.jazzmine_memory_result(conversation, token);
    RETURN CASE result WHEN 'deleted' THEN true WHEN 'nothing' THEN false END;
END
$body$;

-- Delete what is stored of a conversation, what was set aside too, if it is a user's, and hand its
-- lock over; the rules are those of a save.
--
-- Returns how many memories were deleted; null if the token lost the lock.
CREATE FUNCTION $schema.jazzmine_memory_erase(
    conversation text, token text, owner text, kept_ms bigint
) RETURNS integer
    LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    waiting jsonb;
    erased integer := 0;
    aside integer;
BEGIN
    SELECT (data IS NOT NULL AND user_id = owner AND expires_at > clock_timestamp())::integer
    INTO erased FROM $schema.working_memory
    WHERE conversation_id = conversation AND lock_token = token
        AND lock_expires_at > clock_timestamp()
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN substring(
            $schema.jazzmine_memory_result(conversation, token) from '^erased ([0-9]+)$');
    END IF;
    DELETE FROM $schema.working_memory_corrupt
    WHERE conversation_id = conversation AND user_id = owner;
    GET DIAGNOSTICS aside = ROW_COUNT;
    erased := coalesce(erased, 0) + aside;
    UPDATE $schema.working_memory
    SET data = CASE WHEN user_id = owner THEN NULL ELSE data END,
        user_id = nullif(user_id, owner),
        sweep_after = date_trunc('hour', greatest(expires_at,
            clock_timestamp() + kept_ms * interval '1 millisecond') + interval '1 hour'),
        lock_token = NULL, lock_expires_at = '-infinity',
        results = $schema.jazzmine_memory_results(results, token, 'erased ' || erased, kept_ms)
    WHERE conversation_id = conversation
    RETURNING queue INTO waiting;
    IF waiting <> '{}' THEN
        PERFORM $schema.jazzmine_memory_hand_over(conversation, waiting);
    END IF;
    RETURN erased;
END
$body$;

-- Release a conversation's lock without writing, leave the queue, and hand the lock over.
--
-- It releases no lock but its own. Afterwards its token has a result: a request for the lock that
-- is still on its way, or a late save, does nothing.
CREATE FUNCTION $schema.jazzmine_memory_release(conversation text, token text, kept_ms bigint)
    RETURNS void
    LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    store text := split_part(token, '.', 1);
    number bigint := split_part(token, '.', 2);
    stored record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO $schema.working_memory (conversation_id, sweep_after)
    VALUES (conversation, date_trunc('hour',
        clock_timestamp() + kept_ms * interval '1 millisecond' + interval '1 hour'))
    ON CONFLICT (conversation_id) DO UPDATE SET queue = working_memory.queue - token
    RETURNING lock_token, queue, results INTO stored;
    IF coalesce((stored.results -> store ->> 0)::bigint < number, true) THEN
        UPDATE $schema.working_memory
        SET results = $schema.jazzmine_memory_results(results, token, 'released', kept_ms)
        WHERE conversation_id = conversation;
    END IF;
    IF stored.lock_token = token THEN
        PERFORM $schema.jazzmine_memory_hand_over(conversation, stored.queue);
    END IF;
END
$body$;
