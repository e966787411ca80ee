-- Delete a conversation's memory, release its lock and hand it over to the head of the queue.
--
-- Invariant: only the token that holds the lock deletes, and it releases no lock but its own.
-- Asking again (the reply was lost) finds the result of the first time, and returns it.
--
-- KEYS: memory, lock, result, queue. ARGV: token, how long the result is kept (ms).
-- Returns 1 if there was a memory, 0 if there was none, -1 if the token lost the lock.
if redis.pcall('GET', KEYS[2]) ~= ARGV[1] then
    local before = redis.call('GET', KEYS[3])
    return before == 'deleted' and 1 or before == 'nothing to delete' and 0 or -1
end
local deleted = redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[3], deleted == 1 and 'deleted' or 'nothing to delete', 'PX', ARGV[2])
hand_over(KEYS[2], KEYS[4])
return deleted
