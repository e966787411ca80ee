-- Store another form of the state that was read, which says the same.
--
-- Invariant: what is replaced is what was read; its mark, its time to live and its lock stay.
--
-- ARGV: mark and data that were read, other data, user, format.
-- Returns 1, or 0 if something else is there by now.
if stored_mark() ~= ARGV[1] or read_key('HGET', MEMORY, 'data') ~= ARGV[2] then
    return 0
end
redis.call('HSET', MEMORY, 'data', ARGV[3], 'user', ARGV[4], 'format', ARGV[5])
return 1
