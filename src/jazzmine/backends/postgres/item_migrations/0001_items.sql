-- The path is the namespace and the key of an item, encoded so that it sorts as they do (see
-- jazzmine.records.item_paths). Times are in ms since 1970. The bytes of "vector" and "data" are
-- stored apart from the row where they are long, and are not compressed: files mostly are already.
-- The planner keeps no statistics of what items hold.

CREATE TABLE $schema.memory_items (
    path              text COLLATE "C" PRIMARY KEY,
    user_id           text,
    source_message_id text,
    created_at        bigint NOT NULL,
    updated_at        bigint NOT NULL,
    expires_at        bigint,
    revision          bigint NOT NULL,
    value             jsonb  NOT NULL,
    vector            bytea,
    data              bytea
);
ALTER TABLE $schema.memory_items
    ALTER COLUMN vector SET STORAGE EXTERNAL, ALTER COLUMN data SET STORAGE EXTERNAL,
    ALTER COLUMN value SET STATISTICS 0, ALTER COLUMN vector SET STATISTICS 0,
    ALTER COLUMN data SET STATISTICS 0;

CREATE INDEX idx_items_updated ON $schema.memory_items (updated_at, revision);
CREATE INDEX idx_items_user ON $schema.memory_items (user_id, path) WHERE user_id IS NOT NULL;
CREATE INDEX idx_items_source ON $schema.memory_items (source_message_id, path)
    WHERE source_message_id IS NOT NULL;
CREATE INDEX idx_items_expiry ON $schema.memory_items (expires_at) WHERE expires_at IS NOT NULL;

-- An item that is deleted and stored again gets another revision.

CREATE SEQUENCE $schema.memory_item_revisions;

-- `jazzmine doctor` compares the rows with the revisions that come next.

GRANT SELECT ON SEQUENCE $schema.memory_item_revisions TO PUBLIC;
