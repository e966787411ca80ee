-- Move a memory that nobody can read out of the way, and keep it for a while.
--
-- Invariant: what is moved is what the caller could not read: a memory that was saved since, or
-- that is gone, is left alone. So it needs no lock and may be repeated.
--
-- KEYS: memory, the place for unreadable ones. ARGV: the JSON that could not be read (empty if
-- there was none), how long it is kept (ms). Returns 1 if it was moved, otherwise 0.
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
local data = redis.pcall('HGET', KEYS[1], 'data')
if type(data) == 'string' and data ~= ARGV[1] then
    return 0
end
redis.call('RENAME', KEYS[1], KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
