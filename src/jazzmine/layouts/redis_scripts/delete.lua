-- Delete a conversation's memory, let go of its lock and wake the first in line who still listens.
--
-- Invariant: only the token that holds the lock deletes, and it takes away no lock but its own.
-- Asking again (the reply was lost) finds the mark of the first time, and answers as it did.
--
-- KEYS: memory, lock, spent, line. ARGV: token, how long the mark is kept (ms).
-- Returns 1 if there was a memory, 0 if there was none, -1 if the token lost the lock.
if redis.pcall('GET', KEYS[2]) ~= ARGV[1] then
    local before = redis.call('GET', KEYS[3])
    return before == 'deleted' and 1 or before == 'nothing to delete' and 0 or -1
end
local deleted = redis.call('DEL', KEYS[1])
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[3], deleted == 1 and 'deleted' or 'nothing to delete', 'PX', ARGV[2])
repeat
    local waiting = redis.call('LPOP', KEYS[4])
until not waiting or redis.pcall('PUBLISH', waiting, '') ~= 0
return deleted
