-- Write a conversation's state, or delete it, if what is stored has the mark that was read.
--
-- Invariant: what a caller has not read is never replaced, and beside another token's lock nobody
-- writes. The marks of the last 16 saves tell a save that is sent again that it was done.
--
-- ARGV: mark that was read ('' for nothing), mark of the save, token of its lock; and, unless the
-- state is deleted: how long it is kept (ms), data, user, format.
-- Returns 1 if it has written, or else what is stored, and who holds the lock.
local read, mark, token, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local holder, held_for = other_holder(token)
local marks = redis.call('HGET', STATE, 'marks') or ''
if string.sub(marks, 1, 16) ~= read or holder then
    return stored(holder, held_for)
end
if not ttl then
    redis.call('DEL', LOCK, STATE)
    return 1
end
marks = string.sub(mark .. marks, 1, 256)
redis.call('HSET', STATE, 'marks', marks, 'data', ARGV[5], 'user', ARGV[6], 'format', ARGV[7])
redis.call('PEXPIRE', STATE, ttl)
if token ~= '' then
    redis.call('DEL', LOCK)
end
return 1
