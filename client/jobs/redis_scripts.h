// Scripts in Lua that RedisQueue has Redis run. KEYS[1] is the prefix of all keys: `prefix`:due is
// the stream, whose entries hold a job's id; :job:ID a hash; :waiting, :running, ... and :all
// sorted sets of ids by number of submission; :later one by the time when a job is due, in
// microseconds. :turn:DUTY expires when that duty is due again. :dropped counts entries of jobs
// that are gone: evicted, expired or deleted by hand.
#pragma once

namespace upscaled::client {

// In front of each script.
inline constexpr char kRedisCommon[] = R"lua(
local prefix = KEYS[1]
local due, later, group = prefix .. ':due', prefix .. ':later', 'workers'
local consumer = 'worker'  -- one for all: leases are told apart by their numbers
local function job_key(id) return prefix .. ':job:' .. id end
local function now_us()
  local time = redis.call('TIME')
  return string.format('%d%06d', time[1], time[2])
end
-- Puts a job into another state.
local function move(id, to)
  local key = job_key(id)
  local from = redis.call('HGET', key, 'state')
  redis.call('ZREM', prefix .. ':' .. from, id)
  redis.call('ZADD', prefix .. ':' .. to, redis.call('HGET', key, 'number'), id)
  redis.call('HSET', key, 'state', to, 'changed', now_us())
end
local function drop(entry)
  redis.call('XACK', due, group, entry)
  redis.call('XDEL', due, entry)
end
local function is_there(id) return id and redis.call('HEXISTS', job_key(id), 'state') == 1 end
-- What is left of a job that is gone.
local function forget(id)
  redis.call('INCR', prefix .. ':dropped')
  if not id then return end
  redis.call('DEL', job_key(id))
  for _, set in ipairs({'all', 'waiting', 'running', 'done', 'failed', 'cancelled', 'later'}) do
    redis.call('ZREM', prefix .. ':' .. set, id)
  end
end
local function append(id)
  redis.call('HSET', job_key(id), 'entry', redis.call('XADD', due, '*', 'id', id))
end
-- The stream's entry of the job ARGV[1] whose lease is ARGV[2], or nil and what to answer.
local function leased()
  local state, lease, entry = unpack(redis.call('HMGET', job_key(ARGV[1]), 'state', 'lease', 'entry'))
  if state == 'cancelled' then return nil, 'cancelled' end
  if state ~= 'running' or lease ~= ARGV[2] then return nil, 'lost' end
  return entry
end
)lua";

// ARGV: id, task, id, task, ...
inline constexpr char kRedisEnqueue[] = R"lua(
for i = 1, #ARGV, 2 do
  local id, key = ARGV[i], job_key(ARGV[i])
  if redis.call('EXISTS', key) == 0 then
    local number, now = redis.call('INCR', prefix .. ':number'), now_us()
    redis.call('HSET', key, 'task', ARGV[i + 1], 'state', 'waiting', 'number', number, 'deliveries', 0,
               'lease', 0, 'report', '', 'submitted', now, 'changed', now)
    redis.call('ZADD', prefix .. ':all', number, id)
    redis.call('ZADD', prefix .. ':waiting', number, id)
    append(id)
  end
end
return 'ok'
)lua";

// ARGV: milliseconds. First those of silent workers, which XAUTOCLAIM finds, then new ones. Drops
// entries of jobs that are gone, a limited number per call, so that a call stays short.
inline constexpr char kRedisLease[] = R"lua(
if redis.call('EXISTS', due) == 0 or #redis.call('XINFO', 'GROUPS', due) == 0 then
  redis.call('XGROUP', 'CREATE', due, group, '0', 'MKSTREAM')
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', later, '-inf', now_us(), 'LIMIT', 0, 100)) do
  redis.call('ZREM', later, id)
  if is_there(id) then append(id) else forget(id) end
end
local function next_entry()
  local entry, cursor = nil, '0-0'
  repeat  -- each looks at a few entries
    local claimed = redis.call('XAUTOCLAIM', due, group, consumer, ARGV[1], cursor, 'COUNT', 1)
    cursor, entry = claimed[1], claimed[2][1]
  until entry or cursor == '0-0'
  if entry then return entry end
  local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', due, '>')
  return read and read[1][2][1]
end
for _ = 1, 1000 do
  local entry = next_entry()
  if not entry then return {} end
  local id = entry[2] and entry[2][2]
  if is_there(id) then
    local key = job_key(id)
    move(id, 'running')
    redis.call('HDEL', key, 'tiles_done', 'tiles')
    return {id, redis.call('HGET', key, 'task'), redis.call('HINCRBY', key, 'deliveries', 1),
            redis.call('HINCRBY', key, 'lease', 1)}
  end
  drop(entry[1])
  forget(id)
end
return {}
)lua";

// ARGV of these: id, lease, ...; of this one then the tiles that are done, and all. A claim without
// an idle time begins that anew.
inline constexpr char kRedisExtend[] = R"lua(
local entry, answer = leased()
if not entry then return answer end
redis.call('XCLAIM', due, group, consumer, 0, entry, 'JUSTID')
redis.call('HSET', job_key(ARGV[1]), 'tiles_done', ARGV[3], 'tiles', ARGV[4])
return 'ok'
)lua";

// ... state, report.
inline constexpr char kRedisEnd[] = R"lua(
local entry, answer = leased()
if not entry then return answer end
drop(entry)
redis.call('HSET', job_key(ARGV[1]), 'report', ARGV[4])
move(ARGV[1], ARGV[3])
return 'ok'
)lua";

// ... report, microseconds.
inline constexpr char kRedisRetry[] = R"lua(
local entry, answer = leased()
if not entry then return answer end
drop(entry)
redis.call('HSET', job_key(ARGV[1]), 'report', ARGV[3])
redis.call('ZADD', later, now_us() + ARGV[4], ARGV[1])
move(ARGV[1], 'waiting')
return 'ok'
)lua";

// As if nobody had heard of it for a month: the next to ask claims it.
inline constexpr char kRedisHandBack[] = R"lua(
local entry, answer = leased()
if not entry then return answer end
redis.call('XCLAIM', due, group, consumer, 0, entry, 'IDLE', 2592000000, 'JUSTID')
redis.call('HINCRBY', job_key(ARGV[1]), 'deliveries', -1)
redis.call('HINCRBY', job_key(ARGV[1]), 'lease', 1)
move(ARGV[1], 'waiting')
return 'ok'
)lua";

// ARGV: id. "ok", "" for no such job, or the state that it has ended in.
inline constexpr char kRedisCancel[] = R"lua(
local state, entry = unpack(redis.call('HMGET', job_key(ARGV[1]), 'state', 'entry'))
if not state then return '' end
if state ~= 'waiting' and state ~= 'running' then return state == 'cancelled' and 'ok' or state end
redis.call('ZREM', later, ARGV[1])
drop(entry)
move(ARGV[1], 'cancelled')
return 'ok'
)lua";

// ARGV: which sorted set, the only id or "", how many of the latest.
inline constexpr char kRedisList[] = R"lua(
local ids = ARGV[2] ~= '' and {ARGV[2]} or redis.call('ZREVRANGE', prefix .. ':' .. ARGV[1], 0, ARGV[3] - 1)
local jobs = {}
for i = #ids, 1, -1 do
  local job = redis.call('HMGET', job_key(ids[i]), 'task', 'state', 'deliveries', 'report', 'submitted', 'changed',
                         'tiles_done', 'tiles')
  if job[1] and (ARGV[1] == 'all' or ARGV[1] == job[2]) then
    jobs[#jobs + 1] = {ids[i], unpack(job)}
  end
end
return jobs
)lua";

// ARGV: microseconds, how many. Sets are in order of submission, which is about that of the ends:
// looks at the first of each.
inline constexpr char kRedisForget[] = R"lua(
local latest, limit, forgotten = now_us() - ARGV[1], tonumber(ARGV[2]), 0
for _, state in ipairs({'done', 'failed', 'cancelled'}) do
  for _, id in ipairs(redis.call('ZRANGE', prefix .. ':' .. state, 0, limit - 1)) do
    if forgotten == limit then return forgotten end
    local changed = redis.call('HGET', job_key(id), 'changed')
    if not changed or tonumber(changed) < latest then
      redis.call('DEL', job_key(id))
      redis.call('ZREM', prefix .. ':all', id)
      redis.call('ZREM', prefix .. ':' .. state, id)
      forgotten = forgotten + 1
    end
  end
end
return forgotten
)lua";

// ARGV: the duty, milliseconds.
inline constexpr char kRedisTakeTurn[] = R"lua(
return redis.call('SET', prefix .. ':turn:' .. ARGV[1], 1, 'NX', 'PX', ARGV[2]) and 'ok' or ''
)lua";

// In the order of kJobStates.
inline constexpr char kRedisCount[] = R"lua(
local counts = {}
for i, state in ipairs({'waiting', 'running', 'done', 'failed', 'cancelled'}) do
  counts[i] = redis.call('ZCARD', prefix .. ':' .. state)
end
return counts
)lua";

}  // namespace upscaled::client
