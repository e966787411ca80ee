-- What several scripts share. The first four of their keys are the same.
local MEMORY, LOCK, DELETED, LAST = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- Return the reply of a command that reads a key, or the error that the key has another type.
-- Any other error says nothing about what is stored (a right may be missing), and ends the script.
local function read_key(...)
    local reply = redis.pcall(...)
    local problem = type(reply) == 'table' and reply.err
    if problem and not string.find(problem, 'WRONGTYPE', 1, true) then
        error(problem, 0)
    end
    return reply
end

-- Return the mark of what is stored: of a deletion where there is no state, '' for nothing at all.
local function stored_mark()
    local mark = read_key('HGET', MEMORY, 'mark')
    if type(mark) == 'string' then
        return mark
    end
    if redis.call('EXISTS', MEMORY) == 1 then
        return 'unmarked'
    end
    return redis.call('GET', DELETED) or ''
end

-- Return what is stored: its mark, the JSON and the user (nil for none), and why it is
-- no JSON at all.
local function stored()
    local fields, problem = read_key('HMGET', MEMORY, 'data', 'user'), ''
    if fields.err then
        fields, problem = {}, 'a key of another type'
    elseif not fields[1] and redis.call('EXISTS', MEMORY) == 1 then
        problem = 'a hash without the field data'
    end
    return {'stored', stored_mark(), fields[1] or false, fields[2] or false, problem}
end

-- Return the last number that the store has written with, or that was taken back.
local function last_number()
    return tonumber(redis.call('GET', LAST) or 0)
end

-- Return the parts of the lock: the store and the number of its mark, since when, and the holder.
-- A value that is not ours is a lock of nobody known.
local function lock_parts()
    local lock = read_key('GET', LOCK)
    if not lock then
        return nil
    end
    local text = type(lock) == 'string' and lock or 'a key of another type'
    local store, number, since, holder = string.match(text, '^(%w+)%.(%d+) (%d+) (.*)$')
    return store or '', tonumber(number), tonumber(since), holder or text
end

local function now()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Return who else than a store holds the lock, and for how long already (ms).
local function locked_by_another(store)
    local holding, _, since, holder = lock_parts()
    if not holding or holding == store then
        return nil
    end
    return {'locked', holder, now() - (since or now())}
end
