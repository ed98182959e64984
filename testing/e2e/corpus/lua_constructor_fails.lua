-- A constructor that fails is no connection: the message stays.
--
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   recipient: b@target.test
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  local protocol = { custom_lua = { constructor = 'make.nothing' } }
  return kumo.make_queue_config { protocol = protocol, retry_interval = '1h' }
end)

kumo.on('make.nothing', function()
  error 'no pen'
end)
