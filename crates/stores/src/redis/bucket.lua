-- One token bucket, by the rules of core::policy::rates. KEYS[1] is the bucket; ARGV has calls a minute and calls at once.
-- The answer is 0 for a call that passes, else the milliseconds after which it will.
--
-- A token is so many units as a minute has microseconds, and n calls a minute refill n units a microsecond: nothing is
-- rounded while a full bucket is below 2^53 units, which is 150 million calls. Larger products are only compared.
local TOKEN = 60000000
local rpm, capacity = tonumber(ARGV[1]), tonumber(ARGV[2]) * TOKEN
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local units = capacity
local had, at, had_rpm, had_capacity = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+) (%d+) (%d+)$')
if had then
  -- By the limits that held until now. A clock that was put back brings nothing, and goes on from there.
  local missing, flowed = had_capacity - had, math.max(0, now - at) * had_rpm
  units = flowed < missing and had + flowed or tonumber(had_capacity)
  units = math.min(units, capacity)
end
local wait = 0
if units >= TOKEN then
  units = units - TOKEN
else
  wait = math.ceil(math.ceil((TOKEN - units) / rpm) / 1000)
end
-- A full bucket is the same as none.
local full = math.ceil((capacity - units) / rpm / 1000) + 1
local kept = string.format('%.0f %.0f %.0f %.0f', units, now, rpm, capacity)
redis.call('SET', KEYS[1], kept, 'PX', string.format('%.0f', full))
return wait
