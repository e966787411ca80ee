-- Take a conversation's lock and read its memory under it, or stand in line for it.
--
-- Invariant: a lock passes only from nobody to the token that asks, so at most one token holds
-- it. Asking again with the token that holds it (the reply was lost) only renews it. A token
-- that has already let go never gets the lock again, however late its request arrives. Who has
-- a channel and does not get the lock stands in line once, at its end the first time, and from
-- then on at its head: it was woken, and somebody was faster. A lock of a token that the asker
-- knows to be over counts as free: a failover lost its release.
--
-- KEYS: memory, lock, spent, line. ARGV: token, how long the lock lasts (ms), the channel that
-- wakes who asks ('' for none), the end of the line to join (RPUSH or LPUSH), the token that is
-- over ('' for none).
-- Returns the stored JSON or nil where the lock is taken; the ms until the lock of somebody else
-- expires (-1: never) where it is not; and a list of one text where the lock is taken and the
-- memory is no hash with the field `data`.
if redis.call('EXISTS', KEYS[3]) == 1 then
    return 0
end
if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then
    local holder = redis.pcall('GET', KEYS[2])
    if holder ~= ARGV[1] and holder ~= ARGV[5] then
        if ARGV[3] ~= '' then
            if not redis.call('LPOS', KEYS[4], ARGV[3]) then
                redis.call(ARGV[4], KEYS[4], ARGV[3])
            end
            redis.call('PEXPIRE', KEYS[4], 2 * ARGV[2])
        end
        return redis.call('PTTL', KEYS[2])
    end
    redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
end
if ARGV[3] ~= '' then
    redis.call('LREM', KEYS[4], 0, ARGV[3])
end
local data = redis.pcall('HGET', KEYS[1], 'data')
if type(data) == 'table' then
    return {'a key of another type'}
end
if not data and redis.call('EXISTS', KEYS[1]) == 1 then
    return {'a hash without the field data'}
end
return data
