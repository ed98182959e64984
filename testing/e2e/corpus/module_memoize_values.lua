-- Tables of a memoized function are objects that read like tables; several values come back as one list.
--
-- > EHLO client.test
-- < 550 5.7.1 userdata 7 list of 2
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

local config = kumo.memoize(function()
  return { size = 7 }
end, { name = 'config', ttl = '1 minute', capacity = 1 })

local pair = kumo.memoize(function()
  return 'a', 'b'
end, { name = 'pair', ttl = '1 minute', capacity = 1 })

kumo.on('smtp_server_ehlo', function()
  local found = config()
  kumo.reject(550, string.format('5.7.1 %s %d list of %d', type(found), found.size, #pair()))
end)
