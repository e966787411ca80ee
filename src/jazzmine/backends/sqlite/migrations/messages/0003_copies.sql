-- A new field of a trace: copied_from. Sums leave out what is a copy.

ALTER TABLE stored_turn_traces ADD COLUMN is_copy INTEGER NOT NULL DEFAULT 0;
