-- The states, each with the marks of its last 16 saves, the newest first, and with the lock of a
-- `locked` block. Times are in seconds since 1970; `sweep_after` is a full hour, so that its index is
-- rarely written.

CREATE TABLE working_memory (
    conversation_id TEXT    PRIMARY KEY,
    user_id         TEXT,
    format          INTEGER NOT NULL,
    expires_at      REAL    NOT NULL,
    sweep_after     INTEGER NOT NULL,
    marks           TEXT    NOT NULL,
    lock_token      TEXT,
    lock_holder     TEXT,
    lock_taken_at   REAL,
    lock_expires_at REAL,
    data            BLOB    NOT NULL
);
CREATE INDEX idx_wm_sweep ON working_memory (sweep_after);
CREATE INDEX idx_wm_user ON working_memory (user_id) WHERE user_id IS NOT NULL;
