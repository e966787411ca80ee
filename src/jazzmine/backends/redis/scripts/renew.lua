-- Let a lock last longer.
--
-- Invariant: a lock that was lost stays lost: only the token that holds it can renew it.
--
-- KEYS: lock. ARGV: token, how long the lock lasts from now on (ms).
-- Returns 1 if the token still holds the lock, otherwise 0.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
