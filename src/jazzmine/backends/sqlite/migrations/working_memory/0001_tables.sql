-- The states, and beside each the lock under which it is changed: taking a lock need not write the
-- state. Times are in seconds since 1970. `sweep_after` is a full hour, so that its index is rarely
-- written. A token is `store.number`: a store numbers its attempts to get locks.
--
--     queue    {token: [place, expiry]}
--     results  {store: [number, result, expiry]}

CREATE TABLE working_memory (
    conversation_id TEXT    PRIMARY KEY,
    user_id         TEXT    NOT NULL,
    format          INTEGER NOT NULL,
    expires_at      REAL    NOT NULL,
    sweep_after     INTEGER NOT NULL,
    data            BLOB    NOT NULL
);
CREATE INDEX idx_wm_sweep ON working_memory (sweep_after);
CREATE INDEX idx_wm_user ON working_memory (user_id);

CREATE TABLE working_memory_locks (
    conversation_id TEXT    PRIMARY KEY,
    token           TEXT,
    taken_at        REAL    NOT NULL DEFAULT 0,
    expires_at      REAL    NOT NULL DEFAULT 0,
    sweep_after     INTEGER NOT NULL,
    queue           TEXT    NOT NULL DEFAULT '{}',
    results         TEXT    NOT NULL DEFAULT '{}'
) WITHOUT ROWID;
CREATE INDEX idx_wml_sweep ON working_memory_locks (sweep_after);

-- States that could not be read.

CREATE TABLE working_memory_corrupt (
    conversation_id TEXT PRIMARY KEY,
    user_id         TEXT NOT NULL,
    expires_at      REAL NOT NULL,
    data            BLOB NOT NULL
);
CREATE INDEX idx_wmc_user ON working_memory_corrupt (user_id);
CREATE INDEX idx_wmc_expiry ON working_memory_corrupt (expires_at);
