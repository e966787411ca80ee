-- One row for each connection of a store that writes: see leases.py. It need not survive a crash,
-- since no connection does, and costs no flush.

CREATE UNLOGGED TABLE $schema.jazzmine_leases (
    id      bigint      PRIMARY KEY,
    made_at timestamptz NOT NULL DEFAULT now()
);
