-- The path is the namespace and the key of an item, encoded so that it sorts as they do (see
-- jazzmine.records.item_paths). The view "memory_items" shows them apart. Times are in ms since 1970.

CREATE TABLE stored_items (
    path              TEXT    NOT NULL PRIMARY KEY,
    user_id           TEXT,
    source_message_id TEXT,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    expires_at        INTEGER,
    revision          INTEGER NOT NULL,
    value             TEXT    NOT NULL,
    vector            BLOB,
    data              BLOB
);
CREATE INDEX idx_items_updated ON stored_items (updated_at, revision);
CREATE INDEX idx_items_user ON stored_items (user_id, path) WHERE user_id IS NOT NULL;
CREATE INDEX idx_items_source ON stored_items (source_message_id, path)
    WHERE source_message_id IS NOT NULL;
CREATE INDEX idx_items_expiry ON stored_items (expires_at) WHERE expires_at IS NOT NULL;

-- The last revision of any item. An item that is deleted and stored again gets another one.

CREATE TABLE item_revisions (last INTEGER NOT NULL);
INSERT INTO item_revisions VALUES (0);
