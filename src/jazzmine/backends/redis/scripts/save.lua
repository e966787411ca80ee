-- Write a conversation's memory, release its lock and hand it over to the head of the queue.
--
-- Invariant: only the token that holds the lock writes, and it writes once: the same step that
-- writes releases the lock and keeps the result. Asking again (the reply was lost) finds that
-- result and changes nothing. The user and the format stand beside the JSON, so that they are
-- known where it can't be read.
--
-- KEYS: memory, lock, result, queue. ARGV: token, JSON, user, format, how long the memory is kept
-- (ms), how long the result is kept (ms).
-- Returns 1 if this token's memory was written, now or before, and 0 if it lost the lock.
if redis.pcall('GET', KEYS[2]) ~= ARGV[1] then
    return redis.call('GET', KEYS[3]) == 'saved' and 1 or 0
end
redis.call('HSET', KEYS[1], 'data', ARGV[2], 'user', ARGV[3], 'format', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('SET', KEYS[3], 'saved', 'PX', ARGV[6])
hand_over(KEYS[2], KEYS[4])
return 1
