-- Read a conversation's memory without its lock.
--
-- KEYS: memory. ARGV: how long the memory is kept from now on (ms; 0 for as long as before).
-- Returns what `read` returns.
local data = read(KEYS[1])
if type(data) == 'string' and ARGV[1] ~= '0' then
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return data
