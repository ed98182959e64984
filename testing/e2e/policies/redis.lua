-- A script that counts and remembers in Redis.
--   REDIS_DIR, REDIS_NODE
local kumo = require 'kumo'
local redis = require 'redis'
local base = require 'base'

kumo.on('init', function()
  base.serve(os.getenv 'REDIS_DIR')
  -- The connection that the first question makes serves the second too.
  local early = redis.open { node = os.getenv 'REDIS_NODE' }
  assert(early:query 'PING' == 'PONG' and early:query 'PING' == 'PONG')
end)

local conn = redis.open { node = os.getenv 'REDIS_NODE', response_timeout = '2s', connect_timeout = '2s' }

local ACTS = {
  count = function()
    return conn:query('INCR', 'seen')
  end,
  keep = function()
    local set = conn:query('SET', 'a', 'x\0y')
    local got = conn:query('GET', 'a')
    return string.format('%s %d %s', set, #got, tostring(conn:query('GET', 'none')))
  end,
  list = function()
    conn:query('RPUSH', 'l', 'one', 2, 2.5)
    return table.concat(conn:query('LRANGE', 'l', 0, -1), ',')
  end,
  script = function()
    local answer = conn:query('EVAL', "return {1, 'two', {3}}", 0)
    return string.format('%d %s %d', answer[1], answer[2], answer[3][1])
  end,
  wrong = function()
    local ok, why = pcall(conn.query, conn, 'NOSUCH', 'x')
    return string.format('%s %s', ok, tostring(why):match '^[^\n]*')
  end,
  bad = function()
    local ok, why = pcall(conn.query, conn, 'SET', 'x', {})
    return string.format('%s %s', ok, tostring(why):match '^[^\n]*')
  end,
}

kumo.on('smtp_server_mail_from', function(sender)
  kumo.reject(450, tostring(ACTS[sender.user]()))
end)
