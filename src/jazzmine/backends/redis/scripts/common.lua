-- What both scripts share. KEYS: state, lock.
local STATE, LOCK = KEYS[1], KEYS[2]

-- Return the marks of the last saves, the newest first; '' if nothing is stored.
local function stored_marks()
    local marks = redis.call('HGET', STATE, 'marks')
    return marks or (redis.call('EXISTS', STATE) == 1 and '-' or '')
end

local function now()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Return who holds the lock with another token, and for how long already (ms).
local function other_holder(token)
    local lock = redis.call('GET', LOCK)
    if not lock or string.sub(lock, 1, 16) == token then
        return false, false
    end
    local since, holder = string.match(lock, '^%x+ (%d+) (.*)$')
    return holder or lock, now() - (since or now())
end

-- Return the reply of a script that has not written.
local function stored(holder, held_for)
    local fields = redis.call('HMGET', STATE, 'data', 'user')
    return {stored_marks(), fields[1], fields[2], holder, held_for}
end
