-- What both scripts share. KEYS: state, lock.
local STATE, LOCK = KEYS[1], KEYS[2]

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
    local fields = redis.call('HMGET', STATE, 'marks', 'data', 'user')
    return {fields[1], fields[2], fields[3], holder, held_for}
end
