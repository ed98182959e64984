-- The line of who needs the same rates: who was refused has a place, and whoever comes later goes behind him. Two sorted sets: places
-- by when they were taken, and by when they end unless their holder comes back. Who needs other rates as well stands in
-- another line, and between lines it is chance: who waited for both would keep those who need one.

-- For how many milliseconds behind his turn a place is kept for somebody who does not come.
local GRACE = 1500
-- Microseconds between two admissions from which on there is a line: of a faster rate many could have gone before the first came.
local LINES_FROM = 10000

-- One rate: its count, by when its next event is expected, and when it may come. No event of this rate puts that further ahead than
-- so: one that is was counted before the clock was set back, or at another rate.
local function rate_of(key, interval, tolerance, now_us)
  local arrival = math.max(tonumber(redis.call('GET', key) or '0'), now_us)
  arrival = math.min(arrival, now_us + tolerance + interval)
  return {key = key, interval = interval, arrival = arrival, next = arrival - tolerance}
end

-- How long it takes until all of the rates admit one more event than so many, in microseconds; at most 0 when they do.
local function wait_of(rates, ahead, now_us)
  local wait
  for _, rate in ipairs(rates) do
    local own = rate.next + ahead * rate.interval - now_us
    wait = math.max(wait or own, own)
  end
  return wait
end

-- So many events of all rates.
local function admit(rates, count, now_us)
  for _, rate in ipairs(rates) do
    local arrival = rate.arrival + count * rate.interval
    local lasts = string.format('%.0f', math.ceil((arrival - now_us) / 1000))
    redis.call('SET', rate.key, string.format('%.0f', arrival), 'PX', lasts)
  end
end

-- How many stand before him (all, if he has no place), how many others there are, and whether he has a place.
local function places(line, ends, who, now_ms)
  if redis.call('EXISTS', line, ends) < 2 then
    -- One of both may have been evicted.
    redis.call('DEL', line, ends)
    return 0, 0, false
  end
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now_ms)) do
    redis.call('ZREM', line, gone)
    redis.call('ZREM', ends, gone)
  end
  local all, ahead = redis.call('ZCARD', line), redis.call('ZRANK', line, who)
  if ahead then
    return ahead, all - 1, true
  end
  return all, all, false
end

-- He is refused, and takes a place or keeps it until some time after he should have come again. In how many microseconds that is:
-- in his turn, or when somebody has missed his own.
local function stand(rates, line, ends, who, ahead, now_us)
  local wait = wait_of(rates, ahead, now_us)
  if ahead > 0 then
    local first_end_ms = tonumber(redis.call('ZRANGE', ends, 0, 0, 'WITHSCORES')[2])
    wait = math.min(wait, math.max((first_end_ms + 1) * 1000 - now_us, 1000))
  end
  local slowest = 0
  for _, rate in ipairs(rates) do
    slowest = math.max(slowest, rate.interval)
  end
  if who ~= '' and slowest >= LINES_FROM then
    local now_ms, wait_ms = math.floor(now_us / 1000), math.ceil(wait / 1000)
    redis.call('ZADD', line, 'NX', string.format('%.0f', now_us), who)
    redis.call('ZADD', ends, string.format('%.0f', now_ms + wait_ms + GRACE), who)
    local lasts = string.format('%.0f', math.max(redis.call('PTTL', line), wait_ms + GRACE))
    redis.call('PEXPIRE', line, lasts)
    redis.call('PEXPIRE', ends, lasts)
  end
  return wait
end

local function leave(line, ends, who)
  redis.call('ZREM', line, who)
  redis.call('ZREM', ends, who)
end

