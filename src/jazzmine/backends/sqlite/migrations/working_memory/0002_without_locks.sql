-- The states, each with the mark of the save that wrote it; one without data is a tombstone. Times
-- are in seconds since 1970. The tables that version 1.2 made had a lock for each update.

DROP TABLE working_memory_locks;
ALTER TABLE working_memory RENAME TO working_memory_with_locks;

CREATE TABLE working_memory (
    conversation_id TEXT    PRIMARY KEY,
    user_id         TEXT,
    format          INTEGER,
    expires_at      REAL    NOT NULL,
    sweep_after     INTEGER NOT NULL,
    mark            TEXT    NOT NULL,
    data            BLOB
);
INSERT INTO working_memory
SELECT conversation_id, user_id, format, expires_at, sweep_after, '1.2', data
FROM working_memory_with_locks;
DROP TABLE working_memory_with_locks;
CREATE INDEX idx_wm_sweep ON working_memory (sweep_after);
CREATE INDEX idx_wm_user ON working_memory (user_id) WHERE user_id IS NOT NULL;

-- The locks of `locked` blocks.

CREATE TABLE working_memory_locks (
    conversation_id TEXT    PRIMARY KEY,
    store           TEXT    NOT NULL,
    number          INTEGER NOT NULL,
    holder          TEXT    NOT NULL,
    taken_at        REAL    NOT NULL,
    renewed_at      REAL    NOT NULL,
    expires_at      REAL    NOT NULL
) WITHOUT ROWID;
