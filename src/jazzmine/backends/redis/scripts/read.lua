-- Read a conversation's state, and take back what may still arrive.
--
-- Invariant: afterwards no request of the store with this number or a lower one is done, and none
-- of them holds the lock.
--
-- ARGV: store, number (0 for none), how long the number is kept (ms), how long the state is kept
-- from now on (ms; 0 for as long as before).
-- Returns what is stored.
local store, number = ARGV[1], tonumber(ARGV[2])
if last_number() < number then
    redis.call('SET', LAST, ARGV[2], 'PX', ARGV[3])
end
local holding, held = lock_parts()
if held and holding == store and held <= number then
    redis.call('DEL', LOCK)
end
if ARGV[4] ~= '0' then
    redis.call('PEXPIRE', MEMORY, ARGV[4])
end
return stored()
