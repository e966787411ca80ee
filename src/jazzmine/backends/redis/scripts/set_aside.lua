-- Move a state that nobody can read out of the way, and keep it for a while.
--
-- Invariant: what is moved is what the caller could not read: a state that was saved since, or
-- that is gone, is left alone. So it needs no lock and may be repeated.
--
-- KEYS[5]: the place for unreadable ones. ARGV: mark that was read, how long it is kept (ms).
if redis.call('EXISTS', MEMORY) == 1 and stored_mark() == ARGV[1] then
    redis.call('RENAME', MEMORY, KEYS[5])
    redis.call('PEXPIRE', KEYS[5], ARGV[2])
end
return 1
