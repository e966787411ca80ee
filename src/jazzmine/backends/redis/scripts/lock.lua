-- Take a conversation's lock, or let it last longer, and read the state under it.
--
-- Invariant: only one store holds the lock. A number that was reached before (a save released the
-- lock, or it was taken back) gets no lock, however late its request arrives.
--
-- ARGV: store, number, how long the lock lasts from now on (ms), holder, 'absent' to lock also
-- where there is no state.
-- Returns who else holds the lock, or what is stored.
local store, number = ARGV[1], tonumber(ARGV[2])
local locked = locked_by_another(store)
if locked then
    return locked
end
local absent = ARGV[5] ~= 'absent' and redis.call('EXISTS', MEMORY) == 0
if not absent and last_number() < number then
    local _, held, since = lock_parts()
    if held ~= number then
        since = now()
    end
    local lock = store .. '.' .. ARGV[2] .. ' ' .. string.format('%.0f', since) .. ' ' .. ARGV[4]
    redis.call('SET', LOCK, lock, 'PX', ARGV[3])
end
return stored()
