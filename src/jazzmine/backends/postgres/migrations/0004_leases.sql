-- One row for each connection of a store that writes: see leases.py. It need not survive a crash,
-- since no connection does, and costs no flush. Each write updates its row in place, where there
-- is room on the page.

CREATE UNLOGGED TABLE $schema.jazzmine_leases (
    id         bigint      PRIMARY KEY,
    store      bigint      NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT now(),
    is_retired boolean     NOT NULL DEFAULT false,
    calls      bigint      NOT NULL DEFAULT 0,
    written    bigint
) WITH (fillfactor = 50);
