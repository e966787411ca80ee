-- The index of words does not say any more to whom a conversation belongs. What entries say of it stays, and is not
-- read.

DROP TRIGGER IF EXISTS search_moved;
