-- One row for each conversation: its working memory with the marks of its last 16 saves, the newest first, and
-- the lock of a `locked` block. A row that has expired is nothing. `sweep_after` is a full hour, so that the index
-- on it is rarely written, and most updates write a row where there is room on its page. The planner keeps no
-- statistics of what states hold.

CREATE TABLE $schema.working_memory (
    conversation_id text        COLLATE "C" PRIMARY KEY,
    format          integer     NOT NULL,
    expires_at      timestamptz NOT NULL,
    sweep_after     timestamptz NOT NULL,
    user_id         text,
    data            bytea       NOT NULL,
    marks           text        NOT NULL,
    lock_token      text,
    lock_holder     text,
    lock_taken_at   timestamptz,
    lock_expires_at timestamptz
) WITH (fillfactor = 50);
ALTER TABLE $schema.working_memory ALTER COLUMN data SET STATISTICS 0;
CREATE INDEX idx_wm_sweep ON $schema.working_memory (sweep_after);
CREATE INDEX idx_wm_user ON $schema.working_memory (user_id) WHERE user_id IS NOT NULL;
