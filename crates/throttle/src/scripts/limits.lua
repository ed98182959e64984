-- Leases: of each limit a sorted set by when they end, and one of those who wait for it and have none at all, by who asked longest
-- ago.

-- One lease in each of the sets, or in none. The first `count` KEYS are the sets, the next those who wait; the limits are behind the
-- first `at` of ARGV. `waiter` (or empty) has none at all, and his place is kept so long; who has his turn does not look who waits.
-- Answers 0, or which limit has none.
local function take(id, life, waiter, wanted_for, has_turn, count, at, now)
  for i = 1, count do
    local key, wanted = KEYS[i], KEYS[count + i]
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    if not redis.call('ZSCORE', key, id) then
      redis.call('ZREMRANGEBYSCORE', wanted, '-inf', now)
      local ahead = 0
      if not has_turn then
        ahead = waiter ~= '' and redis.call('ZRANK', wanted, waiter) or redis.call('ZCARD', wanted)
      end
      if tonumber(ARGV[at + i]) - redis.call('ZCARD', key) <= ahead then
        if waiter ~= '' then
          redis.call('ZADD', wanted, now + wanted_for, waiter)
          redis.call('PEXPIRE', wanted, wanted_for)
        end
        return i
      end
    end
  end
  for i = 1, count do
    redis.call('ZADD', KEYS[i], now + life, id)
    redis.call('PEXPIRE', KEYS[i], 2 * life)
    if waiter ~= '' then
      redis.call('ZREM', KEYS[count + i], waiter)
    end
  end
  return 0
end

