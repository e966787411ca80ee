-- Take a conversation's lock and read its memory under it, or join the queue for it.
--
-- Invariant: at most one token holds the lock. A lock that is free goes to the head of the queue
-- before anyone else. Asking again with the token that holds the lock (the reply was lost, or the
-- lock was handed over) only renews it. A token that was released never gets the lock again,
-- however late its request arrives. A token that waits has one entry in the queue. A lock of a
-- token that the asker knows to be released counts as free: a failover lost its release.
--
-- KEYS: memory, lock, result, queue. ARGV: token, how long the lock lasts (ms), a token that is
-- released ('' for none), and to join the queue: the token's entry, the end to join (RPUSH or
-- LPUSH).
-- Returns what `read` returns where the lock is taken, and otherwise the ms until the lock of
-- another token expires (-1: never).
if redis.call('EXISTS', KEYS[3]) == 1 then
    return 0
end
local entry = ARGV[4]
local holder = redis.pcall('GET', KEYS[2])
if not holder or holder == ARGV[3] then
    local head = redis.call('LINDEX', KEYS[4], 0)
    if head and head ~= entry then
        hand_over(KEYS[2], KEYS[4])
        holder = redis.call('GET', KEYS[2])
    else
        holder = false
    end
end
if holder and holder ~= ARGV[1] then
    if entry then
        if not redis.call('LPOS', KEYS[4], entry) then
            redis.call(ARGV[5], KEYS[4], entry)
        end
        redis.call('PEXPIRE', KEYS[4], 2 * ARGV[2])
    end
    return redis.call('PTTL', KEYS[2])
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
if entry then
    redis.call('LREM', KEYS[4], 0, entry)
end
return read(KEYS[1])
