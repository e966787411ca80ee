-- Delete what is stored of a conversation, the unreadable too, if it is a user's; release the lock.
--
-- Invariant: only the token that holds the lock deletes, and it releases no lock but its own.
-- Asking again (the reply was lost) finds the result of the first time, and returns it.
--
-- KEYS: memory, lock, result, queue, the place for unreadable ones. ARGV: token, user, how long
-- the result is kept (ms).
-- Returns how many were deleted, -1 if the token lost the lock.
if redis.pcall('GET', KEYS[2]) ~= ARGV[1] then
    local before = redis.call('GET', KEYS[3])
    return tonumber(before and string.match(before, '^erased (%d+)$')) or -1
end
local deleted = 0
for _, memory in ipairs({KEYS[1], KEYS[5]}) do
    if owner(memory) == ARGV[2] then
        deleted = deleted + redis.call('DEL', memory)
    end
end
redis.call('SET', KEYS[3], 'erased ' .. deleted, 'PX', ARGV[3])
hand_over(KEYS[2], KEYS[4])
return deleted
