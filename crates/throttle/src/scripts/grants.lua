-- GCRA over several keys: at most so many of each rate, or none of any. ARGV: who asks (empty: he does not wait, and takes no
-- place), how many, then interval and tolerance of each rate. KEYS: the count of each rate, then both parts of their line. Answers
-- how many were admitted, and how long to wait for the next, in microseconds.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local who, wanted, rates = ARGV[1], tonumber(ARGV[2]), {}
local line, ends = KEYS[#KEYS - 1], KEYS[#KEYS]
local ahead, others = places(line, ends, who, math.floor(now / 1000))
local free
for i = 1, #KEYS - 2 do
  local rate = rate_of(KEYS[i], tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2]), now)
  local own = math.floor((now - rate.next) / rate.interval) + 1 - ahead
  free = math.min(free or own, own)
  rates[i] = rate
end
if free <= 0 then
  return {0, stand(rates, line, ends, who, ahead, now)}
end
-- What has gathered is for those who wait, too.
local count = math.min(wanted, math.max(math.floor(free / (1 + others)), 1))
admit(rates, count, now)
leave(line, ends, who)
return {count, math.max(wait_of(rates, count, now), 0)}
