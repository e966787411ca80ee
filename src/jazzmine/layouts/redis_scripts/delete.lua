-- Delete a conversation's memory, let go of its lock and wake whoever waits for it.
--
-- Invariant: only the token that holds the lock deletes, and it takes away no lock but its own.
-- Asking again (the reply was lost) finds the mark of the first time, and answers as it did.
--
-- KEYS: memory, lock, spent. ARGV: token, how long the mark is kept (ms).
-- Returns 1 if there was a memory, 0 if there was none, -1 if the token lost the lock.
if redis.pcall('GET', KEYS[2]) ~= ARGV[1] then
    local before = redis.call('GET', KEYS[3])
    return before == 'deleted' and 1 or before == 'nothing to delete' and 0 or -1
end
local deleted = redis.call('DEL', KEYS[1])
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[3], deleted == 1 and 'deleted' or 'nothing to delete', 'PX', ARGV[2])
redis.pcall('PUBLISH', KEYS[2], '')
return deleted
