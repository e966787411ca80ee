-- One row for each connection that writes: see leases.py. No connection survives a crash of the
-- server, so the table need not either: it is unlogged, and a write of it waits for no flush. The
-- fill factor leaves room on each page for updates of its rows (HOT).

CREATE UNLOGGED TABLE $schema.jazzmine_leases (
    id         bigint      PRIMARY KEY,
    store      bigint      NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT now(),
    is_retired boolean     NOT NULL DEFAULT false,
    calls      bigint      NOT NULL DEFAULT 0,
    written    bigint
) WITH (fillfactor = 50);
