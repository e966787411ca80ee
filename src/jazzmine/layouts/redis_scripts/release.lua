-- Let go of a conversation's lock without writing, and wake the first in line who still listens.
--
-- Invariant: it takes away no lock but its own, and afterwards its token is spent: a request for
-- the lock that is still on its way, or a late write, finds the mark and does nothing.
--
-- KEYS: lock, spent, line. ARGV: token, how long the mark is kept (ms).
-- Returns 1 if the lock was held, otherwise 0.
redis.call('SET', KEYS[2], 'released', 'NX', 'PX', ARGV[2])
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('DEL', KEYS[1])
repeat
    local waiting = redis.call('LPOP', KEYS[3])
until not waiting or redis.pcall('PUBLISH', waiting, '') ~= 0
return 1
