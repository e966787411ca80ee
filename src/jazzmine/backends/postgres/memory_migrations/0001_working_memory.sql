-- One row for each conversation: its working memory, and the lock of a `locked` block.
--
-- A row that has expired is nothing; one without data is a tombstone, or has nothing but the numbers
-- of its writers: {store: [its last number, expiry in seconds since 1970]}. `lock` has the store,
-- the number and the holder, and the times in seconds since 1970. `sweep_after` is a full hour, so
-- that the index on it is rarely written, and most updates write a row where there is room on its
-- page.

CREATE TABLE $schema.working_memory (
    conversation_id text        COLLATE "C" PRIMARY KEY,
    format          integer,
    expires_at      timestamptz NOT NULL DEFAULT '-infinity',
    sweep_after     timestamptz NOT NULL,
    mark            text        NOT NULL DEFAULT '',
    writers         jsonb       NOT NULL DEFAULT '{}',
    lock            jsonb,
    user_id         text,
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
