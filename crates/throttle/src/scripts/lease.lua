-- One lease of each of several limits and one event of each of several rates (GCRA), or nothing; whoever has the lease has it longer,
-- and its rates have counted it. ARGV: the lease, how long it lasts, who waits for leases and has none at all (or empty), how long
-- his place is kept, who asks (his place in the line of the rates), how many limits, these, then interval and tolerance of each
-- rate. KEYS: those of the limits, then, if there are rates, the count of each and both parts of their line. Answers 0, which
-- limit has no lease, or below 0 for how many microseconds a rate admits none.
local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local now, now_us = seconds * 1000 + math.floor(micros / 1000), seconds * 1000000 + micros
local id, life, waiter, wanted_for, who = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local count = tonumber(ARGV[6])
local rates, has_turn = {}, false
if #KEYS > 2 * count and not redis.call('ZSCORE', KEYS[1], id) then
  local line, ends = KEYS[#KEYS - 1], KEYS[#KEYS]
  for i = 1, #KEYS - 2 - 2 * count do
    local at = 6 + count + 2 * i
    rates[i] = rate_of(KEYS[2 * count + i], tonumber(ARGV[at - 1]), tonumber(ARGV[at]), now_us)
  end
  local ahead, _, has_place = places(line, ends, who, now)
  if wait_of(rates, ahead, now_us) > 0 then
    return -stand(rates, line, ends, who, ahead, now_us)
  end
  has_turn = has_place
  -- Who has no lease by now must not keep those behind him from theirs.
  leave(line, ends, who)
end
local missing = take(id, life, waiter, wanted_for, has_turn and waiter ~= '', count, 6, now)
if missing == 0 then
  admit(rates, 1, now_us)
end
return missing
