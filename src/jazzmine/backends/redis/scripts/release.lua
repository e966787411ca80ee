-- Release a conversation's lock without writing, leave the queue, and hand over to its head.
--
-- Invariant: it releases no lock but its own, and afterwards its token has a result: a request for
-- the lock that is still on its way, or a late write, finds the result and does nothing.
--
-- KEYS: lock, result, queue. ARGV: token, how long the result is kept (ms), the token's entry in the
-- queue ('' for none).
-- Returns 1 if the lock was held, otherwise 0.
redis.call('SET', KEYS[2], 'released', 'NX', 'PX', ARGV[2])
if ARGV[3] ~= '' then
    redis.call('LREM', KEYS[3], 0, ARGV[3])
end
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
hand_over(KEYS[1], KEYS[3])
return 1
