-- A function is computed once for each argument, whoever asks, and its tables can be read.
--
-- mail a@source.test to 1@target.test
-- mail a@source.test to 2@target.test
-- mail a@source.test to 3@other.test
-- arrives
--   header X-Owner: owner of target.test
-- arrives
--   header X-Owner: owner of target.test
-- arrives
--   header X-Owner: owner of other.test
-- wrote computed: target.test / other.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

local owner_of = kumo.memoize(function(domain)
  start.write(start.dir .. '/computed', 'a', domain .. '\n')
  return { name = 'owner of ' .. domain }
end, { name = 'owners', ttl = '5 minutes', capacity = 10 })

kumo.on('smtp_server_message_received', function(msg)
  msg:append_header('X-Owner', owner_of(msg:recipient().domain).name)
end)

start.deliver()
