-- Take a conversation's lock, let it last longer or release it, and read the state under it.
--
-- Invariant: one token holds the lock, and only where a state is stored. What is renewed or
-- released is held with the token still.
--
-- ARGV: token ('' leaves the lock as it is), how long it lasts from now on (ms; 0 releases it),
-- holder, '1' to renew it, and how long the state is kept from now on (ms).
-- Returns what is stored, and who else holds the lock.
local token, lasts, ttl = ARGV[1], ARGV[2], ARGV[5]
if token ~= '' then
    local holder, held_for = other_holder(token)
    if holder then
        return stored(holder, held_for)
    end
    if ARGV[4] == '1' then
        redis.call('PEXPIRE', LOCK, lasts)
    elseif redis.call('EXISTS', STATE) == 1 then
        local lock = token .. ' ' .. string.format('%.0f', now()) .. ' ' .. ARGV[3]
        redis.call('SET', LOCK, lock, 'PX', lasts)
    end
end
redis.call('PEXPIRE', STATE, ttl)
return stored(false, false)
