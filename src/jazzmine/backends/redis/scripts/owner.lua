-- Return whether what a key holds is a user's; with 'delete', delete it in the same step.
--
-- The user stands beside the JSON, or, where an earlier version wrote it, in the JSON alone.
--
-- KEYS: a key with a state. ARGV: user, 'delete' or ''.
local function owner()
    local user = read_key('HGET', KEYS[1], 'user')
    if type(user) == 'string' then
        return user
    end
    local data = read_key('HGET', KEYS[1], 'data')
    if type(data) ~= 'string' then
        data = read_key('GET', KEYS[1])
    end
    if type(data) ~= 'string' then
        return nil
    end
    local is_json, decoded = pcall(cjson.decode, data)
    return is_json and type(decoded) == 'table' and decoded.user_id
end

if owner() ~= ARGV[1] then
    return 0
end
if ARGV[2] == 'delete' then
    redis.call('DEL', KEYS[1])
end
return 1
