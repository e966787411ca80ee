-- Return whose a conversation's memory is, or nil.
--
-- KEYS: memory.
return owner(KEYS[1])
