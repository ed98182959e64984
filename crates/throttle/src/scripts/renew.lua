-- A lease lasts on, or is had again by who lost it. ARGV: the lease, how long it lasts, then the limits.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
return take(ARGV[1], tonumber(ARGV[2]), '', 0, false, #ARGV - 2, 2, now)
