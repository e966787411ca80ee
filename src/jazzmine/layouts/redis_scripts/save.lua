-- Write a conversation's memory, let go of its lock and wake the first in line who still listens.
--
-- Invariant: only the token that holds the lock writes, and it writes once: the same step that
-- writes gives the lock away and marks the token as spent. Asking again (the reply was lost)
-- finds that mark and changes nothing.
--
-- KEYS: memory, lock, spent, line. ARGV: token, JSON, how long the memory is kept (ms), how long the
-- mark is kept (ms). Returns 1 if this token's memory was written, now or before, and 0 if it
-- lost the lock.
if redis.pcall('GET', KEYS[2]) ~= ARGV[1] then
    return redis.call('GET', KEYS[3]) == 'saved' and 1 or 0
end
redis.call('HSET', KEYS[1], 'data', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[3], 'saved', 'PX', ARGV[4])
repeat
    local waiting = redis.call('LPOP', KEYS[4])
until not waiting or redis.pcall('PUBLISH', waiting, '') ~= 0
return 1
