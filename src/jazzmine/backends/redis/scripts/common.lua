-- What several scripts share.

-- How long a lock that was handed over waits for its new owner, in ms.
local CLAIM = 1000

-- Pass a lock that is free to the first in the queue that can be woken; delete it if there is none.
--
-- An entry of the queue is a token alone (its owner asks again by itself), token@channel (its owner
-- listens on this server: without a listener it is gone) or token#channel (its owner may listen on
-- another node of the cluster). The lock is the new owner's only for a moment, until it asks.
local function hand_over(lock, queue)
    local entry = redis.call('LPOP', queue)
    while entry do
        local token, listens, channel = string.match(entry, '^([^@#]*)([@#]?)(.*)$')
        local listeners = channel ~= '' and redis.pcall('PUBLISH', channel, token) or 0
        if listens ~= '@' or listeners ~= 0 then
            redis.call('SET', lock, token, 'PX', CLAIM)
            return
        end
        entry = redis.call('LPOP', queue)
    end
    redis.call('DEL', lock)
end

-- Return the stored JSON, nil if there is none, or why it is no JSON as a list of one text.
local function read(memory)
    local data = redis.pcall('HGET', memory, 'data')
    if type(data) == 'table' then
        return {'a key of another type'}
    end
    if not data and redis.call('EXISTS', memory) == 1 then
        return {'a hash without the field data'}
    end
    return data
end

-- Return whose a memory is, as text, or nil. Versions before 1.1 kept the user in the JSON alone.
local function owner(memory)
    local user = redis.pcall('HGET', memory, 'user')
    if type(user) == 'string' then
        return user
    end
    local data = redis.pcall('HGET', memory, 'data')
    if type(data) ~= 'string' then
        return nil
    end
    local is_json, decoded = pcall(cjson.decode, data)
    user = is_json and type(decoded) == 'table' and decoded.user_id
    return type(user) == 'string' and user or nil
end
