-- Write a conversation's state, or delete it, if what is stored has the mark that was read.
--
-- Invariant: a request is done at most once: the step that writes keeps its number, and a number
-- that was reached before does nothing. Beside another store's lock nobody writes.
--
-- ARGV: store, number, mark that was read, how long the number is kept (ms); and, unless the state
-- is deleted: how long it is kept (ms), JSON, user, format.
-- Returns 'written' (now or before), who holds the lock, or what is stored instead.
local store, number, read, kept = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
if last_number() >= number then
    return {'written'}
end
local locked = locked_by_another(store)
if locked then
    return locked
end
-- What jazzmine 0.1 wrote stands in a key of its own, which counts where there is nothing else.
local mark_now = stored_mark()
if mark_now ~= read and not (read == '0.1.42' and mark_now == '') then
    return stored()
end
local mark = store .. '.' .. ARGV[2]
if ARGV[5] then
    redis.call('HSET', MEMORY, 'data', ARGV[6], 'mark', mark, 'user', ARGV[7], 'format', ARGV[8])
    redis.call('PEXPIRE', MEMORY, ARGV[5])
    redis.call('DEL', LOCK, DELETED)
else
    -- First what needs no memory: a server whose memory is full refuses a script otherwise.
    redis.call('DEL', LOCK, MEMORY)
    redis.call('SET', DELETED, mark, 'PX', kept)
end
redis.call('SET', LAST, ARGV[2], 'PX', kept)
return {'written'}
