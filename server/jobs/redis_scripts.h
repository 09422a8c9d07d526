// Scripts in Lua for RedisQueue's Redis. KEYS[1] is the prefix of all keys:
//  - `prefix`:job:ID is a hash
//  - :line:TENANT is a sorted set of due jobs, by number of submission
//  - :turns is a sorted set of the tenants that have a line, by the number of their last lease
//  - :due is the stream of leased jobs, whose entries hold a job's id
//  - :later is a sorted set of jobs that wait for a time, in microseconds
//  - :all, :waiting, :running, ... are sorted sets of ids by number of submission, for lists; so
//    are :tenant:TENANT, :tenant:STATE:TENANT, :batch:BATCH and :reference:TENANT:REFERENCE
//  - :turn:DUTY expires when that duty is due again
//  - :dropped counts entries of jobs that are gone: evicted, expired or deleted by hand
#pragma once

namespace upscaled::server {

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
-- The sorted sets that a job is in while it is in this state.
local function sets_of(state, tenant, batch, reference)
  local sets = {prefix .. ':all', prefix .. ':' .. state}
  if tenant ~= '' then
    sets[#sets + 1] = prefix .. ':tenant:' .. tenant
    sets[#sets + 1] = prefix .. ':tenant:' .. state .. ':' .. tenant
  end
  if batch ~= '' then sets[#sets + 1] = prefix .. ':batch:' .. batch end
  if reference ~= '' then sets[#sets + 1] = prefix .. ':reference:' .. #tenant .. ':' .. tenant .. reference end
  return sets
end
-- Puts a job into another state.
local function move(id, to)
  local key = job_key(id)
  local from, number, tenant = unpack(redis.call('HMGET', key, 'state', 'number', 'tenant'))
  redis.call('ZREM', prefix .. ':' .. from, id)
  redis.call('ZADD', prefix .. ':' .. to, number, id)
  if tenant and tenant ~= '' then
    redis.call('ZREM', prefix .. ':tenant:' .. from .. ':' .. tenant, id)
    redis.call('ZADD', prefix .. ':tenant:' .. to .. ':' .. tenant, number, id)
  end
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
-- A due job stands in its tenant's line. A tenant that comes is the next in turn.
local function line_up(id)
  local number, tenant = unpack(redis.call('HMGET', job_key(id), 'number', 'tenant'))
  tenant = tenant or ''
  redis.call('ZADD', prefix .. ':line:' .. tenant, number, id)
  local first = redis.call('ZRANGE', prefix .. ':turns', 0, 0, 'WITHSCORES')
  redis.call('ZADD', prefix .. ':turns', 'NX', first[2] or 0, tenant)
end
-- The stream's entry of the job ARGV[1] whose lease is ARGV[2], or nil and what to answer.
local function leased()
  local state, lease, entry = unpack(redis.call('HMGET', job_key(ARGV[1]), 'state', 'lease', 'entry'))
  if state == 'cancelled' then return nil, 'cancelled' end
  if state ~= 'running' or lease ~= ARGV[2] then return nil, 'lost' end
  return entry
end
)lua";

// ARGV: id, task, tenant, batch, reference, id, ...
inline constexpr char kRedisEnqueue[] = R"lua(
for i = 1, #ARGV, 5 do
  local id, task, tenant, batch, reference = unpack(ARGV, i, i + 4)
  local key = job_key(id)
  if redis.call('EXISTS', key) == 0 then
    local number, now = redis.call('INCR', prefix .. ':number'), now_us()
    redis.call('HSET', key, 'task', task, 'state', 'waiting', 'number', number, 'deliveries', 0,
               'lease', 0, 'report', '', 'submitted', now, 'changed', now,
               'tenant', tenant, 'batch', batch, 'reference', reference)
    for _, set in ipairs(sets_of('waiting', tenant, batch, reference)) do
      redis.call('ZADD', set, number, id)
    end
    line_up(id)
  end
end
return 'ok'
)lua";

// ARGV: milliseconds. First jobs of silent workers, found by XAUTOCLAIM, then entries made by
// submitters of an older version, then the line of the tenant in turn. Drops entries of deleted
// jobs, a limited number per call, to keep a call short.
inline constexpr char kRedisLease[] = R"lua(
if redis.call('EXISTS', due) == 0 or #redis.call('XINFO', 'GROUPS', due) == 0 then
  redis.call('XGROUP', 'CREATE', due, group, '0', 'MKSTREAM')
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', later, '-inf', now_us(), 'LIMIT', 0, 100)) do
  redis.call('ZREM', later, id)
  if is_there(id) then line_up(id) else forget(id) end
end
-- Appends the next job of the tenant whose turn it is to the stream.
local function serve_a_line()
  while true do
    local tenant = redis.call('ZRANGE', prefix .. ':turns', 0, 0)[1]
    if not tenant then return end
    local id = redis.call('ZPOPMIN', prefix .. ':line:' .. tenant)[1]
    if id then
      local last = redis.call('ZRANGE', prefix .. ':turns', -1, -1, 'WITHSCORES')
      redis.call('ZADD', prefix .. ':turns', last[2] + 1, tenant)
      redis.call('HSET', job_key(id), 'entry', redis.call('XADD', due, '*', 'id', id))
      return
    end
    redis.call('ZREM', prefix .. ':turns', tenant)
  end
end
local function read_entry()
  local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', due, '>')
  return read and read[1][2][1]
end
local function next_entry()
  local entry, cursor = nil, '0-0'
  repeat  -- each looks at a few entries
    local claimed = redis.call('XAUTOCLAIM', due, group, consumer, ARGV[1], cursor, 'COUNT', 1)
    cursor, entry = claimed[1], claimed[2][1]
  until entry or cursor == '0-0'
  entry = entry or read_entry()
  if entry then return entry end
  serve_a_line()
  return read_entry()
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

// ARGV of these: id, lease, ...; of this one then the finished tiles, and all. A claim without an
// idle time begins it again.
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

// As if it had been silent for a month: the next to ask claims it.
inline constexpr char kRedisHandBack[] = R"lua(
local entry, answer = leased()
if not entry then return answer end
redis.call('XCLAIM', due, group, consumer, 0, entry, 'IDLE', 2592000000, 'JUSTID')
redis.call('HINCRBY', job_key(ARGV[1]), 'deliveries', -1)
redis.call('HINCRBY', job_key(ARGV[1]), 'lease', 1)
move(ARGV[1], 'waiting')
return 'ok'
)lua";

// ARGV: id. "ok", "" for an unknown job, or the state of its end.
inline constexpr char kRedisCancel[] = R"lua(
local state, entry, tenant = unpack(redis.call('HMGET', job_key(ARGV[1]), 'state', 'entry', 'tenant'))
if not state then return '' end
if state ~= 'waiting' and state ~= 'running' then return state == 'cancelled' and 'ok' or state end
redis.call('ZREM', later, ARGV[1])
redis.call('ZREM', prefix .. ':line:' .. (tenant or ''), ARGV[1])
if entry then drop(entry) end
move(ARGV[1], 'cancelled')
return 'ok'
)lua";

// ARGV: "" or a state, id, tenant, batch, reference and the id of the job to list before; how many
// of the latest. Reads the smallest set with them, and filters by the other facts.
inline constexpr char kRedisList[] = R"lua(
local state, only, tenant, batch, reference, before, limit = unpack(ARGV)
limit = tonumber(limit)
local set = prefix .. ':' .. (state ~= '' and state or 'all')
if tenant ~= '' then set = prefix .. ':tenant:' .. (state ~= '' and state .. ':' or '') .. tenant end
if reference ~= '' and tenant ~= '' then set = prefix .. ':reference:' .. #tenant .. ':' .. tenant .. reference end
if batch ~= '' then set = prefix .. ':batch:' .. batch end
local from = '+inf'
if before ~= '' then
  local number = redis.call('HGET', job_key(before), 'number')
  if not number then return {} end
  from = '(' .. number
end
local latest = {}
local function take(id)
  local job = redis.call('HMGET', job_key(id), 'task', 'state', 'deliveries', 'report', 'submitted', 'changed',
                         'tiles_done', 'tiles', 'tenant', 'batch', 'reference', 'number')
  if not job[1] then return end
  for i, wanted in ipairs({state, tenant, batch, reference}) do
    if wanted ~= '' and wanted ~= job[({2, 9, 10, 11})[i]] then return end
  end
  if only ~= '' and before ~= '' and tonumber(job[12]) >= tonumber(from:sub(2)) then return end
  latest[#latest + 1] = {id, unpack(job)}
end
if only ~= '' then
  if limit > 0 then take(only) end
else
  while #latest < limit do  -- from where the last part ended: an offset would be walked each time
    local ids = redis.call('ZREVRANGEBYSCORE', set, from, '-inf', 'WITHSCORES', 'LIMIT', 0, 200)
    if #ids == 0 then break end
    for i = 1, #ids, 2 do
      if #latest < limit then take(ids[i]) end
    end
    from = '(' .. ids[#ids]
  end
end
local jobs = {}
for i = #latest, 1, -1 do jobs[#jobs + 1] = latest[i] end
return jobs
)lua";

// ARGV: microseconds, how many. Sets are in order of submission, nearly the order of the ends:
// looks at the first of each.
inline constexpr char kRedisForget[] = R"lua(
local latest, limit, forgotten = now_us() - ARGV[1], tonumber(ARGV[2]), 0
for _, state in ipairs({'done', 'failed', 'cancelled'}) do
  for _, id in ipairs(redis.call('ZRANGE', prefix .. ':' .. state, 0, limit - 1)) do
    if forgotten == limit then return forgotten end
    local changed, tenant, batch, reference = unpack(
      redis.call('HMGET', job_key(id), 'changed', 'tenant', 'batch', 'reference'))
    if not changed or tonumber(changed) < latest then
      redis.call('DEL', job_key(id))
      for _, set in ipairs(sets_of(state, tenant or '', batch or '', reference or '')) do
        redis.call('ZREM', set, id)
      end
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

}  // namespace upscaled::server
